//! FlowSchema and PriorityLevelConfiguration. They are stored; requests are bounded by other means here. Those that every
//! reference server has are there from the start and come back.

use muster_tree::{Value, json};

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource};
use crate::model::{Fields as _, metadata};
use crate::validation::flowcontrol;
use crate::validation::meta::Look;

/// Their API group.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";

fn resource(kind: &'static str, plural: &'static str) -> Resource {
    Resource::cluster(GROUP, "v1", kind, plural).parts(&[Subresource::Status])
}

/// Which requests are of which priority.
pub(super) fn schema() -> Row {
    Row {
        counts_spec: true,
        default: |schema| {
            if let Some(spec) = schema.object_mut("spec") {
                set_if_zero(spec, "matchingPrecedence", 1000);
            }
        },
        validate: |schema, _, errors| {
            flowcontrol::validate_schema(schema, fixed_spec("flowschemas", schema).as_ref(), errors);
        },
        metadata: Look::WHOLE,
        prepare: keep_metadata,
        part_metadata: false,
        validate_part: |_, schema, _, errors| flowcontrol::validate_status(schema, errors),
        columns: &SCHEMA_COLUMNS,
        ..Row::new(resource("FlowSchema", "flowschemas"))
    }
}

/// A write of the status leaves the metadata as it is, but for who wrote what.
fn keep_metadata(part: Part, object: &mut Object, old: Option<&Object>) {
    let Some(old) = old.filter(|_| part == Part::Status) else { return };
    let own = object.object_or_new("metadata");
    let sent = std::mem::replace(own, metadata(old).clone());
    own.carry("managedFields", &sent);
}

fn set_if_zero(object: &mut Object, field: &str, value: i64) {
    if object.int(field) == 0 {
        object.insert(field.to_owned(), json!(value));
    }
}

/// The spec of the object of that name that every server has, as it is stored.
fn fixed_spec(plural: &str, object: &Object) -> Option<Value> {
    let name = metadata(object).text("name");
    let own = mandatory().into_iter().find(|(of, own)| *of == plural && own["metadata"]["name"] == name);
    own.map(|(_, mut own)| own["spec"].take())
}

static SCHEMA_COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    Column::text("PriorityLevel", "`name` is the name of the priority level configuration being referenced Required.")
        .at("/spec/priorityLevelConfiguration/name"),
    Column::text("MatchingPrecedence", "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen FlowSchema is among those with the numerically lowest (which we take to be logically highest) MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that if the precedence is not specified, it will be set to 1000 as default.")
        .number_at("/spec/matchingPrecedence"),
    Column::text("DistinguisherMethod", "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty string.")
        .by(|object, _| {
            let method = object.object("spec").and_then(|spec| spec.object("distinguisherMethod"));
            method.map_or("<none>", |method| method.text("type")).into()
        }),
    AGE_COLUMN,
    Column::text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration").by(|object, _| {
        let mut conditions = object.object("status").into_iter().flat_map(|status| status.items("conditions"));
        conditions.find(|condition| condition.text("type") == "Dangling").map_or("?", |c| c.text("status")).into()
    }),
];

/// How many requests of a priority are handled at once.
pub(super) fn level() -> Row {
    Row {
        counts_spec: true,
        default: default_level,
        validate: |level, _, errors| {
            let fixed = fixed_spec("prioritylevelconfigurations", level);
            flowcontrol::validate_level(level, fixed.as_ref(), errors);
        },
        metadata: Look::WHOLE,
        prepare: keep_metadata,
        part_metadata: false,
        validate_part: |_, level, _, errors| flowcontrol::validate_status(level, errors),
        columns: &LEVEL_COLUMNS,
        ..Row::new(resource("PriorityLevelConfiguration", "prioritylevelconfigurations"))
    }
}

fn default_level(level: &mut Object) {
    let Some(spec) = level.object_mut("spec") else { return };
    for (field, shares) in [("exempt", 0), ("limited", 30)] {
        if let Some(limits) = spec.object_mut(field) {
            limits.set_if_absent("nominalConcurrencyShares", shares);
            limits.set_if_absent("lendablePercent", 0);
        }
    }
    let limited = spec.object_mut("limited").and_then(|limited| limited.object_mut("limitResponse"));
    if let Some(queuing) = limited.and_then(|response| response.object_mut("queuing")) {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            set_if_zero(queuing, field, value);
        }
    }
}

static LEVEL_COLUMNS: [Column; 7] = [
    NAME_COLUMN,
    Column::text("Type", "`type` indicates whether this priority level is subject to limitation on request execution.  A value of `\"Exempt\"` means that requests of this priority level are not subject to a limit (and thus are never queued) and do not detract from the capacity made available to other priority levels.  A value of `\"Limited\"` means that (a) requests of this priority level _are_ subject to limits and (b) some of the server's limited capacity is made available exclusively to this priority level. Required.")
        .at("/spec/type"),
    Column::text("NominalConcurrencyShares", "`nominalConcurrencyShares` (NCS) contributes to the computation of the NominalConcurrencyLimit (NominalCL) of this level. This is the number of execution seats available at this priority level. This is used both for requests dispatched from this priority level as well as requests dispatched from other priority levels borrowing seats from this level. The server's concurrency limit (ServerCL) is divided among the Limited priority levels in proportion to their NCS values:\n\nNominalCL(i)  = ceil( ServerCL * NCS(i) / sum_ncs ) sum_ncs = sum[priority level k] NCS(k)\n\nBigger numbers mean a larger nominal concurrency limit, at the expense of every other priority level.\n\nIf not specified, this field defaults to a value of 30.\n\nSetting this field to zero supports the construction of a \"jail\" for this priority level that is used to hold some request(s)")
        .by(|object, _| limit(object, "/nominalConcurrencyShares")),
    Column::text("Queues", "`queues` is the number of queues for this priority level. The queues exist independently at each apiserver. The value must be positive.  Setting it to 1 effectively precludes shufflesharding and thus makes the distinguisher method of associated flow schemas irrelevant.  This field has a default value of 64.")
        .by(|object, _| limit(object, "/limitResponse/queuing/queues")),
    Column::text("HandSize", "`handSize` is a small positive number that configures the shuffle sharding of requests into queues.  When enqueuing a request at this priority level the request's flow identifier (a string pair) is hashed and the hash value is used to shuffle the list of queues and deal a hand of the size specified here.  The request is put into one of the shortest queues in that hand. `handSize` must be no larger than `queues`, and should be significantly smaller (so that a few heavy flows do not saturate most of the queues).  See the user-facing documentation for more extensive guidance on setting this field.  This field has a default value of 8.")
        .by(|object, _| limit(object, "/limitResponse/queuing/handSize")),
    Column::text("QueueLengthLimit", "`queueLengthLimit` is the maximum number of requests allowed to be waiting in a given queue of this priority level at a time; excess requests are rejected.  This value must be positive.  If not specified, it will be defaulted to 50.")
        .by(|object, _| limit(object, "/limitResponse/queuing/queueLengthLimit")),
    AGE_COLUMN,
];

fn limit(object: &Object, pointer: &str) -> Value {
    let limited = object.get("spec").and_then(|spec| spec.get("limited"));
    limited.and_then(|limited| limited.pointer(pointer)).cloned().unwrap_or_else(|| "<none>".into())
}

/// The objects that every server has: their plural name, and they themselves.
#[must_use]
pub fn mandatory() -> Vec<(&'static str, Value)> {
    let named = |kind: &str, name: &str, spec: Value| {
        json!({
            "kind": kind,
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
            "spec": spec,
        })
    };
    let level = |name, spec| ("prioritylevelconfigurations", named("PriorityLevelConfiguration", name, spec));
    let schema = |name, spec| ("flowschemas", named("FlowSchema", name, spec));
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let everything =
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]);
    let anything = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let rules =
        |subjects: Value| json!([{"subjects": subjects, "resourceRules": everything, "nonResourceRules": anything}]);
    vec![
        level("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})),
        level(
            "catch-all",
            json!({
                "type": "Limited",
                "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0},
            }),
        ),
        schema(
            "exempt",
            json!({
                "priorityLevelConfiguration": {"name": "exempt"},
                "matchingPrecedence": 1,
                "rules": rules(json!([group("system:masters")])),
            }),
        ),
        schema(
            "catch-all",
            json!({
                "priorityLevelConfiguration": {"name": "catch-all"},
                "matchingPrecedence": 10_000,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": rules(json!([group("system:unauthenticated"), group("system:authenticated")])),
            }),
        ),
    ]
}
