//! StatefulSet.

use super::{
    AGE_COLUMN, Column, NAME_COLUMN, NameRule, Object, Part, Resource, Row, Subresource, cells, defaults, workload,
};
use crate::model::Fields as _;
use crate::validation::persistentvolumeclaim::spec_warnings;
use crate::validation::{self, Path, statefulset as rules};

/// Pods with names of their own, each with claims of its own.
pub(super) fn kind() -> Row {
    Row {
        name_rule: NameRule::Label,
        counts_spec: true,
        default,
        prepare,
        validate: rules::validate,
        validate_part: |_, object, old, errors| rules::validate_status(object, old, errors),
        warnings,
        complete_zero: workload::no_replicas,
        columns: &COLUMNS,
        scale_selector: workload::scale_selector,
        ..Row::new(
            Resource::namespaced("apps", "v1", "StatefulSet", "statefulsets")
                .short(&["sts"])
                .in_all()
                .parts(&[Subresource::Scale, Subresource::Status]),
        )
    }
}

static COLUMNS: [Column; 5] = [
    NAME_COLUMN,
    Column::text("Ready", "Number of the pod with ready state").by(cells::ready),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
];

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_empty("podManagementPolicy", "OrderedReady");
    let strategy = spec.object_or_new("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.insert("type", "RollingUpdate".into());
        strategy.set_if_absent("rollingUpdate", Object::new());
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling) = strategy.object_mut("rollingUpdate")
    {
        rolling.set_if_absent("partition", 0);
    }
    let policy = spec.object_or_new("persistentVolumeClaimRetentionPolicy");
    policy.set_if_empty("whenDeleted", "Retain");
    policy.set_if_empty("whenScaled", "Retain");
    spec.set_if_absent("replicas", 1);
    spec.set_if_absent("revisionHistoryLimit", 10);
    defaults::template(spec, "template");
    for claim in spec.items_mut("volumeClaimTemplates") {
        claim.insert("apiVersion", "v1".into());
        claim.insert("kind", "PersistentVolumeClaim".into());
        defaults::claim_spec(claim.object_or_new("spec"));
        claim.object_or_new("status").set_if_empty("phase", "Pending");
    }
}

/// How many pods may be missing in an update is a feature that is off; what is stored stays.
fn prepare(part: Part, object: &mut Object, old: Option<&Object>) {
    fn rolling(object: &mut Object) -> Option<&mut Object> {
        object.object_mut("spec")?.object_mut("updateStrategy")?.object_mut("rollingUpdate")
    }
    workload::prepare(part, object, old);
    let known = old.is_some_and(|old| rolling(&mut old.clone()).is_some_and(|r| r.contains_key("maxUnavailable")));
    if let Some(rolling) = rolling(object).filter(|_| !known) {
        rolling.remove("maxUnavailable");
    }
}

fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let path = Path::new("spec");
    let spec = object.part("spec");
    let mut warnings = validation::workload::template_warnings(object, old);
    let claims = path.child("volumeClaimTemplates");
    for (i, claim) in spec.items("volumeClaimTemplates").enumerate() {
        // The paths are the reference's: one for a new object, one for a change.
        let path = claims.index(i);
        let path = if old.is_some() { path.child("Spec") } else { path };
        warnings.extend(spec_warnings(&path, claim.part("spec")));
    }
    if spec.int("revisionHistoryLimit") < 0 {
        let path = path.child("revisionHistoryLimit");
        warnings
            .push(format!("{path}: a negative value retains all historical revisions; a value >= 0 is recommended"));
    }
    warnings
}
