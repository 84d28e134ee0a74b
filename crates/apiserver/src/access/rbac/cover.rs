//! Which rights somebody lacks to grant a rule: the check that stops an escalation of privileges.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::rule::{Rule, quoted};
use crate::access::User;
use crate::field::go_quote;

/// A rule that allows more than so many single things is not taken apart: who grants it has to have it in one rule.
const MOST_PARTS: usize = 100_000;

/// What of `wanted` is not in `owned`: rules of one group, resource and name each, or of one path; empty where all is.
#[must_use]
pub fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    let mut places: HashMap<[Vec<String>; 3], usize> = HashMap::new();
    for rule in wanted {
        if owned.iter().any(|own| own.resource_names.is_empty() && own.covers(rule)) {
            continue;
        }
        if rule.parts() > MOST_PARTS {
            joined.push(rule.clone());
            continue;
        }
        let parts = rule.taken_apart().into_iter();
        for part in parts.filter(|part| !owned.iter().any(|own| own.covers(part))) {
            if !part.paths.is_empty() {
                joined.push(part);
                continue;
            }
            let key = [part.api_groups.clone(), part.resources.clone(), part.resource_names.clone()];
            match places.entry(key) {
                Entry::Occupied(known) => joined[*known.get()].verbs.extend(part.verbs),
                Entry::Vacant(place) => {
                    place.insert(joined.len());
                    joined.push(part);
                }
            }
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

    fn rules(json: &muster_tree::Value) -> Vec<Rule> {
        muster_tree::from_value(json).expect("rules")
    }

    /// A short rule can stand for any number of single rights.
    ///
    /// Contract: API-31, B-26
    #[test]
    fn a_rule_of_very_many_rights_costs_little() {
        let many = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
        let rule = |n: usize| {
            let (verbs, groups, resources) = (many("v", n), many("g", n), many("r", n));
            rules(&muster_tree::json!([{"verbs": verbs, "apiGroups": groups, "resources": resources}]))
        };
        let none = missing(&[], &rule(5_000));
        assert_eq!(none.len(), 1, "as one");
        assert_eq!(missing(&[], &rule(46)).len(), 46 * 46, "each");
        assert!(missing(&Rule::everything(), &rule(5_000)).is_empty());
        assert!(missing(&rule(5_000), &rule(5_000)).is_empty());
    }

    /// Contract: API-31
    #[test]
    fn what_is_missing_is_joined_and_sorted() {
        let owned = rules(&muster_tree::json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/a/*"]},
        ]));
        let wanted = rules(&muster_tree::json!([
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
