//! The APIServices of what this server serves itself: one for each version of a group.

use std::collections::BTreeSet;

use muster_tree::{Value, json};

use super::{Catalogue, Registry};
use crate::kinds::apiregistration::{GROUP, PLURAL};
use crate::model::fields::{Fields as _, metadata};
use crate::model::groups;

/// Who keeps an APIService: `onstart` or `true` for the server.
const KEPT: &str = "kube-aggregator.kubernetes.io/automanaged";

/// What is served though nothing is stored.
const REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Creates those of the server's own kinds.
pub(super) fn create_first(registry: &Registry) {
    let catalogue = registry.catalogue();
    let groups: BTreeSet<&str> = catalogue.served().iter().map(|served| &*served.resource().group).collect();
    // The group that tells of the others is not told of.
    for group in groups.into_iter().filter(|group| *group != GROUP) {
        for version in versions(&catalogue, group) {
            registry.create_own(GROUP, PLURAL, local(group, version, "onstart"));
        }
    }
    for group in REVIEWS {
        registry.create_own(GROUP, PLURAL, local(group, "v1", "onstart"));
    }
}

/// Creates those of versions of a group that have come to be served, and deletes those of versions that have gone.
pub(super) fn follow(registry: &Registry, group: &str, before: &Catalogue, after: &Catalogue) {
    let (before, after) = (versions(before, group), versions(after, group));
    for version in after.difference(&before) {
        registry.create_own(GROUP, PLURAL, local(group, version, "true"));
    }
    for version in before.difference(&after) {
        let kept = |object: &_| metadata(object).part("labels").text(KEPT) == "true";
        registry.delete_own(GROUP, PLURAL, &name(group, version), kept);
    }
}

fn versions<'c>(catalogue: &'c Catalogue, group: &str) -> BTreeSet<&'c str> {
    let resources = catalogue.served().iter().map(|served| served.resource());
    resources.filter(|resource| resource.group == group).map(|resource| &*resource.version).collect()
}

fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

fn local(group: &str, version: &str, kept: &str) -> Value {
    let (group_priority, version_priority) = groups::priority(group, version);
    let mut spec = json!({
        "version": version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": name(group, version), "labels": {KEPT: kept}},
        "spec": spec,
    })
}
