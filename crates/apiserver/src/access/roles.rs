//! What the reference's default roles allow everybody who has a name, and everybody who has none.

use serde_json::{Value, json};

use super::attributes::Attributes;
use super::{AUTHENTICATED, UNAUTHENTICATED, User};

/// A ClusterRole, bound to groups by a ClusterRoleBinding of the same name.
struct Role {
    name: &'static str,
    groups: &'static [&'static str],
    rules: &'static [Rule],
}

enum Rule {
    /// These may be created.
    Created { group: &'static str, resources: &'static [&'static str] },
    /// These paths may be read; one that ends with a star stands for all that begin so.
    Read(&'static [&'static str]),
}

const ROLES: [Role; 3] = [
    Role {
        name: "system:basic-user",
        groups: &[AUTHENTICATED],
        rules: &[
            Rule::Created {
                group: "authorization.k8s.io",
                resources: &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
            Rule::Created { group: "authentication.k8s.io", resources: &["selfsubjectreviews"] },
        ],
    },
    Role {
        name: "system:public-info-viewer",
        groups: &[AUTHENTICATED, UNAUTHENTICATED],
        rules: &[Rule::Read(&["/healthz", "/livez", "/readyz", "/version", "/version/"])],
    },
    Role {
        name: "system:discovery",
        groups: &[AUTHENTICATED],
        rules: &[Rule::Read(&[
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ])],
    },
];

/// Whether a user may do something; if so, with what the reference says of why.
#[must_use]
pub fn allow(user: &User, attributes: &Attributes<'_>) -> Option<String> {
    if user.may_do_anything() {
        return Some(String::new());
    }
    ROLES.iter().find_map(|Role { name, groups, rules }| {
        let group = groups.iter().find(|group| user.is_in(group))?;
        rules.iter().any(|rule| rule.covers(attributes)).then(|| {
            format!("RBAC: allowed by ClusterRoleBinding \"{name}\" of ClusterRole \"{name}\" to Group \"{group}\"")
        })
    })
}

/// All that a user may do in any namespace: the status of a `SelfSubjectRulesReview`.
#[must_use]
pub fn rules_of(user: &User) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for role in ROLES.iter().filter(|role| role.groups.iter().any(|group| user.is_in(group))) {
        for rule in role.rules {
            match rule {
                Rule::Created { group, resources: plurals } => {
                    resources.push(json!({"verbs": ["create"], "apiGroups": [group], "resources": plurals}));
                }
                Rule::Read(urls) => paths.push(json!({"verbs": ["get"], "nonResourceURLs": urls})),
            }
        }
    }
    if user.may_do_anything() {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

impl Rule {
    fn covers(&self, attributes: &Attributes<'_>) -> bool {
        match (self, attributes) {
            (
                Self::Created { group: of, resources },
                Attributes::Resource { verb: "create", group, resource, subresource: "", .. },
            ) => of == group && resources.contains(resource),
            (Self::Read(urls), Attributes::Path { verb, path }) => {
                verb == "get"
                    && urls.iter().any(|url| url.strip_suffix('*').map_or(url == path, |all| path.starts_with(all)))
            }
            _ => false,
        }
    }
}
