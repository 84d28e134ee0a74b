//! What is asked of a changed definition: what an old one got away with, the new one may keep.

use std::collections::BTreeSet;

use super::MOST_SELECTABLE;
use crate::custom::definition::schema::{self, Options};
use crate::custom::definition::{Definition, Version, structure, webhook};
use crate::custom::props::Props;

impl Options {
    /// What is asked of a changed definition: no more than the old one kept, where it did not keep everything.
    pub(super) fn of_update(definition: &Definition, old: &Definition) -> Self {
        let schemas: Vec<&Props> = old.spec.versions.iter().filter_map(Version::props).collect();
        let any = |test: &dyn Fn(&Props) -> bool| schemas.iter().any(|schema| schema.any(&mut |p| test(p)));
        let versions =
            old.spec.conversion.as_ref().and_then(|c| c.webhook.as_ref()).map(|w| &w.conversion_review_versions);
        let bundle = old
            .spec
            .conversion
            .as_ref()
            .and_then(|c| c.webhook.as_ref()?.client_config.as_ref())
            .map_or("", |config| config.ca_bundle.as_str());
        let same = |test: &dyn Fn(&Version, &Version) -> bool| -> BTreeSet<String> {
            let pairs = definition.spec.versions.iter().filter_map(|version| {
                let before = old.spec.versions.iter().find(|before| before.name == version.name)?;
                test(version, before).then(|| version.name.clone())
            });
            pairs.collect()
        };
        let mut many = same(&|version, before| {
            before.selectable_fields.len() > MOST_SELECTABLE && version.selectable_fields == before.selectable_fields
        });
        if !many.is_empty() && many.len() == definition.spec.versions.len() {
            many.insert(String::new());
        }
        Self {
            require_schema: old.spec.versions.iter().all(|version| version.props().is_some()),
            require_types: !any(&schema::has_unknown_type),
            require_structural: !schemas
                .iter()
                .any(|s| structure::unsupported(s).is_some() || !structure::validate(s, "").is_empty()),
            require_pruned_defaults: !schemas.iter().any(|schema| schema::has_unpruned_defaults(schema)),
            require_atomic_sets: !any(&schema::has_set_of_parts),
            require_map_keys: !any(&|p| !schema::map_keys(p, "").is_empty()),
            require_review_version: versions
                .is_none_or(|list| list.is_empty() || list.iter().any(|v| matches!(v.as_str(), "v1" | "v1beta1"))),
            allow_invalid_bundle: !old.is("Established") || (!bundle.is_empty() && !webhook::bundle_is_valid(bundle)),
            many_selectable: many,
            unchanged: same(&|version, before| version.schema == before.schema),
            ignore_rule_cost: false,
        }
    }
}
