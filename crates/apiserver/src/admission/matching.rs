//! Which requests a webhook or a policy is about: by operations, resources, namespaces and labels.

use muster_objects::Selector;

use super::attributes::{Attributes, Operation, Seen};
use crate::model::{Fields as _, Object, metadata};
use crate::registry::Registry;
use crate::status::{ApiError, GroupResource};
use crate::validation::selector;

/// What requests have to be like.
#[derive(Debug)]
pub(super) struct Constraints {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether a request counts that is about the same objects in another version.
    equivalent: bool,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    /// Whether no rules stand for every request.
    open: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    /// Only objects of these names; none for all.
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

impl Constraints {
    /// Those of a webhook.
    pub(super) fn of_webhook(hook: &Object) -> Self {
        Self { open: false, ..Self::new(hook, "rules") }
    }

    /// Those of a policy or a binding.
    pub(super) fn of_policy(resources: &Object) -> Self {
        Self::new(resources, "resourceRules")
    }

    fn new(parent: &Object, rules: &str) -> Self {
        let read = |field: &str| parent.items(field).map(Rule::new).collect();
        let select = |field: &str| selector::parse(parent.object(field)).map_err(|error| error.to_string());
        Self {
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            equivalent: parent.text("matchPolicy") == "Equivalent",
            namespaces: select("namespaceSelector"),
            objects: select("objectSelector"),
            open: true,
        }
    }

    /// As what a request is seen, where it is one of those that are meant. `object` and `old` have the request's version.
    ///
    /// # Errors
    /// 404 for a namespace that is not there, 500 for a selector that is none, where the request is meant otherwise.
    pub(super) fn matches(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        old: Option<&Object>,
    ) -> Result<Option<Seen>, ApiError> {
        let in_namespace = self.matches_namespace(registry, attributes, object);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let by_labels = self.matches_labels(object, old);
        if matches!(by_labels, Ok(false)) {
            return Ok(None);
        }
        if self.find(&self.excluded, registry, attributes).is_some() {
            return Ok(None);
        }
        let seen = if self.open && self.rules.is_empty() {
            attributes.seen.clone()
        } else {
            match self.find(&self.rules, registry, attributes) {
                Some(seen) => seen,
                None => return Ok(None),
            }
        };
        in_namespace?;
        by_labels?;
        Ok(Some(seen))
    }

    /// Whether a request of these could be meant at all, whatever it is about.
    fn find(&self, rules: &[Rule], registry: &Registry, attributes: &Attributes<'_>) -> Option<Seen> {
        if rules.iter().any(|rule| rule.matches(attributes, &attributes.seen)) {
            return Some(attributes.seen.clone());
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let mut equivalents = attributes.equivalents(&registry.catalogue());
        let meant = |seen: &Seen| rules.iter().position(|rule| rule.matches(attributes, seen));
        // Earlier rules count first.
        let at = (0..equivalents.len()).filter_map(|at| Some((meant(&equivalents[at])?, at))).min()?.1;
        Some(equivalents.swap_remove(at))
    }

    fn matches_namespace(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, ApiError> {
        let is_namespace = attributes.seen.plural == "namespaces";
        if attributes.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(|why| ApiError::internal(why))?;
        if selector.is_everything() {
            return Ok(true);
        }
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && written {
            let empty = Object::new();
            return Ok(selector::matches(selector, object.map_or(&empty, metadata)));
        }
        let name = &attributes.namespace;
        let namespaces = registry.find("", "v1", "namespaces");
        match namespaces.and_then(|kind| registry.storage.get(kind.id, "", name)) {
            Some(entry) => Ok(selector.matches_fn(|key| entry.label(key))),
            None => Err(ApiError::not_found(GroupResource { group: "", resource: "namespaces" }, name)),
        }
    }

    fn matches_labels(&self, object: Option<&Object>, old: Option<&Object>) -> Result<bool, ApiError> {
        let selector = self.objects.as_ref().map_err(|why| ApiError::internal(why))?;
        let labelled = |object: &Object| selector::matches(selector, metadata(object));
        Ok(selector.is_everything() || object.is_some_and(labelled) || old.is_some_and(labelled))
    }
}

impl Rule {
    fn new(rule: &Object) -> Self {
        let list = |field: &str| rule.strings(field).map(str::to_owned).collect();
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: match rule.text("scope") {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Any,
            },
            names: list("resourceNames"),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, seen: &Seen) -> bool {
        let one_of = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let is_namespace = (&*seen.group, &*seen.version, &*seen.plural) == ("", "v1", "namespaces");
        let in_cluster = is_namespace || attributes.namespace.is_empty();
        let resource = |item: &String| {
            let (resource, subresource) = item.split_once('/').unwrap_or((item, ""));
            (resource == "*" || resource == seen.plural)
                && (subresource == "*" || subresource == attributes.subresource)
        };
        (self.scope == Scope::Any || (self.scope == Scope::Cluster) == in_cluster)
            && one_of(&self.operations, attributes.operation.word())
            && one_of(&self.groups, &seen.group)
            && one_of(&self.versions, &seen.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }
}
