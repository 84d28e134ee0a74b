//! Which rights somebody lacks to grant a rule: the check that stops an escalation of privileges.

use std::collections::BTreeSet;

use super::rule::{Rule, quoted};
use crate::access::User;
use crate::field::go_quote;

/// What of `wanted` is not in `owned`: rules of one group, resource and name each, or of one path; empty where all is.
#[must_use]
pub fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::taken_apart);
    let lacking = parts.filter(|part| !owned.iter().any(|own| own.covers(part)));
    let mut joined: Vec<Rule> = Vec::new();
    for part in lacking {
        let same = |other: &&mut Rule| {
            part.paths.is_empty()
                && (&other.api_groups, &other.resources, &other.resource_names, &other.paths)
                    == (&part.api_groups, &part.resources, &part.resource_names, &part.paths)
        };
        match joined.iter_mut().find(same) {
            Some(other) => other.verbs.extend(part.verbs),
            None => joined.push(part),
        }
    }
    joined
}

/// How the reference says that a user lacks rights; `errors` are roles that could not be found.
#[must_use]
pub fn complaint(user: &User, missing: &[Rule], errors: &[String]) -> String {
    let shown: BTreeSet<String> = missing.iter().map(Rule::shown).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let mut out = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&user.name),
        quoted(&user.groups),
        shown.join("\n"),
    );
    if !errors.is_empty() {
        out.push_str(&format!("; resolution errors: [{}]", super::aggregate(errors)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: serde_json::Value) -> Vec<Rule> {
        serde_json::from_value(json).expect("rules")
    }

    /// Contract: API-31
    #[test]
    fn what_is_missing_is_joined_and_sorted() {
        let owned = rules(serde_json::json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/a/*"]},
        ]));
        let wanted = rules(serde_json::json!([
            {"verbs": ["get", "list", "watch"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["x"]},
            {"verbs": ["get", "put"], "nonResourceURLs": ["/a/b", "/c"]},
        ]));
        let missing = missing(&owned, &wanted);
        let user = User { name: "al".to_owned(), groups: vec!["a".to_owned(), "b".to_owned()], ..User::anonymous() };
        let said = [
            r#"user "al" (groups=["a" "b"]) is attempting to grant RBAC permissions not currently held:"#,
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], ResourceNames:["x"], Verbs:["get" "list" "watch"]}"#,
            r#"{NonResourceURLs:["/a/b"], Verbs:["put"]}"#,
            r#"{NonResourceURLs:["/c"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/c"], Verbs:["put"]}"#,
        ];
        assert_eq!(complaint(&user, &missing, &[]), said.join("\n"));
        let errors = ["x not found".to_owned(), "y not found".to_owned()];
        assert_eq!(
            complaint(&user, &missing, &errors),
            format!("{}; resolution errors: [[x not found, y not found]]", said.join("\n"))
        );
        assert!(super::missing(&wanted, &wanted).is_empty());
    }
}
