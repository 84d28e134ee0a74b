//! A rule of a role: what it allows, whether it covers another one, and how messages show it.

use serde::{Deserialize, Deserializer};

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::field::go_quote;

/// Stands for every verb, API group, resource or path.
const ALL: &str = "*";

/// A `PolicyRule` of the group `rbac.authorization.k8s.io`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// What may be done.
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
    /// In which API groups.
    #[serde(deserialize_with = "list")]
    pub api_groups: Vec<String>,
    /// To which resources: `pods`, `pods/log`, `*/scale`.
    #[serde(deserialize_with = "list")]
    pub resources: Vec<String>,
    /// To which objects; to all where there are none.
    #[serde(deserialize_with = "list")]
    pub resource_names: Vec<String>,
    /// To which paths that are no resources; a star at the end stands for any end.
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    pub paths: Vec<String>,
}

/// A list that may be null.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

impl Rule {
    /// All that there is: every verb on every resource, and on every path.
    #[must_use]
    pub fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), paths: all(), ..Self::default() },
        ]
    }

    /// Whether the rule allows this.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        match attributes {
            Attributes::Path { verb, path } => {
                has_or_all(&self.verbs, verb) && self.paths.iter().any(|own| own == ALL || path_covers(own, path))
            }
            Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, name, .. }) => {
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, group)
                    && self.resources.iter().any(|own| resource_matches(own, resource, subresource))
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
        }
    }

    /// Whether the rule allows all that one with a single verb, group, resource and name (or a single verb and path)
    /// does.
    #[must_use]
    pub fn covers(&self, one: &Self) -> bool {
        covers_all(&self.verbs, &one.verbs)
            && covers_all(&self.api_groups, &one.api_groups)
            && (has(&self.resources, ALL) || one.resources.iter().all(|resource| self.covers_resource(resource)))
            && (self.resource_names.is_empty()
                || !one.resource_names.is_empty() && one.resource_names.iter().all(|n| has(&self.resource_names, n)))
            && one.paths.iter().all(|path| self.paths.iter().any(|own| path_covers(own, path)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let of_all = |own: &String| match (own.strip_prefix("*/"), resource.split_once('/')) {
            (Some(own), Some((_, subresource))) => own == subresource,
            _ => false,
        };
        has(&self.resources, resource) || self.resources.iter().any(of_all)
    }

    /// How many rules it is, taken apart.
    #[must_use]
    pub fn parts(&self) -> usize {
        let of_resources = [self.api_groups.len(), self.resources.len(), self.resource_names.len().max(1)];
        let of_resources = of_resources.into_iter().fold(self.verbs.len(), usize::saturating_mul);
        of_resources.saturating_add(self.paths.len().saturating_mul(self.verbs.len()))
    }

    /// The rule taken apart into rules that [`Rule::covers`] can judge.
    #[must_use]
    pub fn taken_apart(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part =
                        Self { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Self::default() };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                    } else {
                        let named = self.resource_names.iter().map(one);
                        parts.extend(named.map(|resource_names| Self { resource_names, ..part.clone() }));
                    }
                }
            }
        }
        for path in &self.paths {
            parts.extend(self.verbs.iter().map(|verb| Self { verbs: one(verb), paths: one(path), ..Self::default() }));
        }
        parts
    }

    /// The rule as messages show it: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
    #[must_use]
    pub fn shown(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let filled = parts.iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<String> = filled.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list of strings as Go prints one with `%q`.
#[must_use]
pub fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| go_quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|own| own == text)
}

fn has_or_all(list: &[String], text: &str) -> bool {
    list.iter().any(|own| own == ALL || own == text)
}

fn covers_all(list: &[String], others: &[String]) -> bool {
    has(list, ALL) || others.iter().all(|other| has(list, other))
}

/// Whether `own`, of a rule, stands for a resource or subresource that is asked for.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    own.split_once('/').is_some_and(|(of, sub)| sub == subresource && (of == ALL || of == resource))
}

/// Whether `own`, of a rule, stands for a path.
fn path_covers(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule from words: `verbs groups resources names`, each separated by commas.
    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        let resource_names = if names.is_empty() { Vec::new() } else { list(names) };
        let (verbs, api_groups, resources) = (list(verbs), list(groups), list(resources));
        Rule { verbs, api_groups, resources, resource_names, paths: Vec::new() }
    }

    fn paths(verb: &str, paths: &[&str]) -> Rule {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        Rule { verbs: vec![verb.to_owned()], paths, ..Rule::default() }
    }

    /// Contract: API-31
    #[test]
    fn a_rule_allows_what_it_names() {
        let asked = |verb, group, resource, subresource, name| {
            let verb = std::borrow::Cow::Borrowed(verb);
            Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, namespace: "n", name })
        };
        let table = [
            (rule("get", "", "pods", ""), asked("get", "", "pods", "", "a"), true),
            (rule("get", "", "pods", ""), asked("list", "", "pods", "", ""), false),
            (rule("get", "", "pods", ""), asked("get", "apps", "pods", "", "a"), false),
            (rule("get", "", "pods", ""), asked("get", "", "pods", "log", "a"), false),
            (rule("get", "", "pods/log", ""), asked("get", "", "pods", "log", "a"), true),
            (rule("get", "", "pods/log", ""), asked("get", "", "pods", "", "a"), false),
            (rule("get", "", "*/log", ""), asked("get", "", "pods", "log", "a"), true),
            (rule("get", "", "*/log", ""), asked("get", "", "pods", "", "a"), false),
            (rule("get", "", "pods/*", ""), asked("get", "", "pods", "log", "a"), false),
            (rule("get", "", "*", ""), asked("get", "", "pods", "log", "a"), true),
            (rule("*", "*", "*", ""), asked("zap", "apps", "pods", "log", "a"), true),
            (rule("get", "", "pods", "a,b"), asked("get", "", "pods", "", "b"), true),
            (rule("get", "", "pods", "a,b"), asked("get", "", "pods", "", "c"), false),
            (rule("list", "", "pods", "a"), asked("list", "", "pods", "", ""), false),
            (paths("get", &["/x/*"]), asked("get", "", "x", "", ""), false),
        ];
        for (rule, asked, allowed) in table {
            assert_eq!(rule.allows(&asked), allowed, "{rule:?} {asked:?}");
        }
        for (own, path, allowed) in [
            ("/x", "/x", true),
            ("/x", "/x/", false),
            ("/x/*", "/x/y/z", true),
            ("/x/*", "/x", false),
            ("/x*", "/xy", true),
            ("*", "/metrics", true),
            ("/x/**", "/x/y", true),
        ] {
            let asked = Attributes::Path { verb: "get".into(), path };
            assert_eq!(paths("get", &[own]).allows(&asked), allowed, "{own} {path}");
            assert!(!paths("post", &[own]).allows(&asked));
        }
    }

    /// Contract: API-31
    #[test]
    fn a_rule_covers_another_that_allows_no_more() {
        let table = [
            (rule("get,list", "", "pods", ""), rule("get", "", "pods", ""), true),
            (rule("get", "", "pods", ""), rule("get", "", "pods", "a"), true),
            (rule("get", "", "pods", "a"), rule("get", "", "pods", ""), false),
            (rule("get", "", "pods", "a,b"), rule("get", "", "pods", "b"), true),
            (rule("*", "*", "*", ""), rule("*", "*", "*", ""), true),
            (rule("get", "*", "*", ""), rule("*", "*", "*", ""), false),
            (rule("get", "", "*/scale", ""), rule("get", "", "x/scale", ""), true),
            (rule("get", "", "*/scale", ""), rule("get", "", "scale", ""), false),
            (rule("get", "", "x/scale", ""), rule("get", "", "*/scale", ""), false),
            (paths("get", &["/x/*"]), paths("get", &["/x/y"]), true),
            (paths("get", &["/x/*"]), paths("get", &["/x/y/*"]), true),
            (paths("get", &["/x/y"]), paths("get", &["/x/*"]), false),
            (rule("get", "*", "*", ""), paths("get", &["/x"]), false),
        ];
        for (owner, one, covered) in table {
            assert_eq!(owner.covers(&one), covered, "{owner:?} {one:?}");
        }
    }
}
