//! Deployment.

use muster_tree::Value;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, cells, defaults, workload};
use crate::model::{Fields as _, metadata};
use crate::validation::{deployment as rules, selector, workload as templates};

/// Pods of a template that changes, a few at a time.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default,
        prepare,
        validate: |object, old, errors| {
            rules::validate(object, old, errors);
            if let Some(old) = old {
                templates::validate_selector_unchanged(object, old, errors);
            }
        },
        validate_part: |_, object, old, errors| rules::validate_status(object, old, errors),
        warnings: templates::warnings,
        complete_zero: workload::no_replicas,
        columns: &COLUMNS,
        scale_selector: workload::scale_selector,
        ..Row::new(
            Resource::namespaced("apps", "v1", "Deployment", "deployments")
                .short(&["deploy"])
                .in_all()
                .parts(&[Subresource::Scale, Subresource::Status]),
        )
    }
}

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::text("Ready", "Number of the pod with ready state").by(cells::ready),
    Column::text(
        "Up-to-date",
        "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
    )
    .number_at("/status/updatedReplicas"),
    Column::text(
        "Available",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
    )
    .number_at("/status/availableReplicas"),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels.",
    )
    .by(|object, _| {
        let selector = selector::parse(object.part("spec").object("selector"));
        selector.map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string()).into()
    }),
];

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_absent("replicas", 1);
    spec.entry("selector").or_insert(Value::Null);
    defaults::template(spec, "template");
    let strategy = spec.object_or_new("strategy");
    strategy.set_if_empty("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.object_or_new("rollingUpdate");
        rolling.set_if_absent("maxUnavailable", "25%");
        rolling.set_if_absent("maxSurge", "25%");
    }
    spec.set_if_absent("revisionHistoryLimit", 10);
    spec.set_if_absent("progressDeadlineSeconds", 600);
    object.set_if_absent("status", Object::new());
}

fn prepare(part: Part, object: &mut Object, old: Option<&Object>) {
    workload::prepare(part, object, old);
    match (part, old) {
        (_, None) => {}
        // Annotations may come with a status: the controller copies the revision.
        (Part::Status, Some(old)) => object.object_or_new("metadata").carry("labels", metadata(old)),
        // Annotations are copied to the ReplicaSets: a change of them is work for the controller.
        (_, Some(old)) => workload::raise_with_annotations(object, old),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;
    use crate::kinds::Kind as _;

    /// Drops what Go's encoding leaves out, as the schema's decoding does before defaults are set.
    fn omit_empty(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if key != "annotations" && key != "matchLabels" && key != "labels" {
                        omit_empty(value);
                    }
                }
                map.retain(|key, value| match value {
                    Value::Null => false,
                    Value::Bool(b) => *b || !matches!(key.as_str(), "readOnly" | "stdin" | "tty" | "hostNetwork"),
                    Value::String(text) => !text.is_empty() || !matches!(key.as_str(), "priorityClassName" | "value"),
                    Value::Array(list) => !list.is_empty(),
                    _ => true,
                });
            }
            Value::Array(list) => list.iter_mut().for_each(omit_empty),
            _ => {}
        }
    }

    /// What a real server stored for sixty templates of every shape.
    ///
    /// Contract: API-16
    #[test]
    fn sixty_deployments_are_stored_as_the_reference_stored_them() {
        let vectors: Value = serde_json::from_str(include_str!("../../tests/vectors/pod-template-hash.json"))
            .expect("the vectors are JSON");
        let vectors = vectors["vectors"].as_array().expect("a list");
        assert_eq!(vectors.len(), 60);
        let kind = kind();
        for vector in vectors {
            let mut sent = vector["sent"].clone();
            omit_empty(&mut sent);
            let Value::Object(mut object) = sent else { panic!("not an object") };
            kind.default(&mut object);
            assert_eq!(object["spec"], vector["stored"], "{}", vector["sent"]["metadata"]["name"]);
            let once = object.clone();
            kind.default(&mut object);
            assert_eq!(object, once, "defaulting twice is defaulting once");
            object.object_or_new("metadata").insert("namespace", "n".into());
            assert_eq!(kind.validate_create(&object), [], "{}", vector["sent"]["metadata"]["name"]);
        }
    }

    /// Contract: API-15
    #[test]
    fn generation_rises_with_spec_and_annotations_but_not_with_labels_or_status() {
        let old =
            json!({"metadata": {"generation": 4, "annotations": {"a": "1"}}, "spec": {"replicas": 1}, "status": {}});
        let old = old.as_object().expect("object");
        for (change, part, want) in [
            (json!({"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 1}}), Part::Main, 4),
            (json!({"metadata": {"annotations": {"a": "2"}}, "spec": {"replicas": 1}}), Part::Main, 5),
            (json!({"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 2}}), Part::Main, 5),
            (json!({"metadata": {"annotations": {"a": "2"}}, "spec": {"replicas": 2}}), Part::Main, 5),
            (
                json!({"metadata": {"annotations": {"a": "1"}, "labels": {"x": "y"}}, "spec": {"replicas": 1}}),
                Part::Main,
                4,
            ),
            (
                json!({"metadata": {"generation": 99}, "spec": {"replicas": 7}, "status": {"replicas": 3}}),
                Part::Status,
                4,
            ),
        ] {
            let Value::Object(mut new) = change.clone() else { panic!("not an object") };
            kind().prepare_update(part, &mut new, old);
            assert_eq!(metadata(&new).int("generation"), want, "{change}");
        }
    }
}
