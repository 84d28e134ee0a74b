//! Whole decisions: what a plan holds, and how it reads.

use std::time::Duration;

use muster_controllers::plan::{ClaimOutcome, Expectation, Failure, Plan, Remark, Requeue, Step};
use muster_controllers::replicaset::{Expected, Snapshot, decide, preview};
use muster_objects::{Labels, ReplicaSet, Template};
use serde_json::{Value, json};

use crate::fixtures::{
    NOW, ago, decode, labels, orphan, pending, pod, pods, ready_since, remembered, replica_set, snapshot, terminating,
    uid,
};

fn planned(snapshot: &Snapshot<ReplicaSet>) -> Plan {
    decide(snapshot, &ClaimOutcome::default(), NOW)
}

fn body(plan: &Plan) -> Value {
    match plan.steps.as_slice() {
        [Step::Create(creation)] => serde_json::from_slice(&creation.body).expect("a body is JSON"),
        other => panic!("one creation expected, not {other:?}"),
    }
}

/// Contract: RS-09, EX-01
#[test]
fn too_few_are_created_up_to_the_burst_and_expected() {
    for (have, want, burst, created, cut) in [(0, 3, 500, 3, false), (2, 3, 500, 1, false), (0, 700, 500, 500, true)] {
        let plan = planned(&Snapshot { burst, ..snapshot(replica_set(want), pods(have)) });
        assert_eq!(plan.creations(), created);
        assert_eq!(plan.expectation, Some(Expectation::Creations(created)));
        assert_eq!(plan.remarks, if cut { vec![Remark::CutAtBurst(500)] } else { vec![] });
    }
}

/// Contract: RS-13, EX-01
#[test]
fn too_many_are_deleted_up_to_the_burst_and_expected_by_name() {
    let plan = planned(&snapshot(replica_set(1), [pod("a", 11), pending("b", 12), pending("c", 13)]));
    let deleted: Vec<_> = plan.deletions().map(|deletion| deletion.key.clone()).collect();
    assert_eq!(deleted.iter().map(|key| &*key.name).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(plan.expectation, Some(Expectation::Deletions(deleted)));
    let plan = planned(&Snapshot { burst: 2, ..snapshot(replica_set(0), pods(5)) });
    assert_eq!((plan.deletions().count(), plan.remarks.first()), (2, Some(&Remark::CutAtBurst(2))));
}

/// By uid and by version, that of an adoption made in the same sync included.
///
/// Contract: B-02
#[test]
fn deletions_carry_uid_and_version() {
    let snapshot = snapshot(replica_set(0), [pod("a", 11), orphan("b", 12)]);
    let mut claims = ClaimOutcome::default();
    claims.adopted.insert(uid(12), Some(muster_objects::ResourceVersion(7_777)));
    let plan = decide(&snapshot, &claims, NOW);
    let options: Vec<Value> =
        plan.deletions().map(|deletion| serde_json::from_slice(&deletion.options()).expect("JSON")).collect();
    let expected = |uid, version: &str| {
        json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version},
        })
    };
    assert_eq!(options, [expected(uid(11), "1011"), expected(uid(12), "7777")]);
}

/// The version of an object can be unknown, its uid never is.
///
/// Contract: B-02
#[test]
fn a_deletion_of_unknown_version_carries_the_uid() {
    let mut unknown = pod("a", 11);
    unknown.meta.resource_version = muster_objects::ResourceVersion::UNKNOWN;
    let plan = planned(&snapshot(replica_set(0), [unknown]));
    let options = plan.deletions().next().expect("too many").options();
    let options: Value = serde_json::from_slice(&options).expect("JSON");
    assert_eq!(options["preconditions"], json!({"uid": uid(11)}));
}

/// Contract: B-23
#[test]
fn an_owner_is_confirmed_before_pods_are_created_and_not_before_they_are_deleted() {
    let confirm = |replicas: i32, confirm: bool, told: i32| {
        let memory = remembered(|memory| memory.confirm = confirm);
        let mut set = replica_set(replicas);
        set.status.replicas = told;
        planned(&Snapshot { memory, ..snapshot(set, pods(2)) }).confirm_owner
    };
    assert!(confirm(3, true, 2));
    assert!(!confirm(3, false, 2));
    assert!(!confirm(1, true, 2));
    assert!(confirm(3, false, 3), "one went before this manager looked");
    assert!(!confirm(1, false, 3));
}

/// Contract: RS-14
#[test]
fn an_owner_being_deleted_neither_creates_nor_deletes() {
    for count in [0, 5] {
        let mut owner = replica_set(2);
        owner.meta.deletion_timestamp = Some(ago(1));
        let plan = planned(&snapshot(owner, pods(count)));
        assert!(plan.is_quiet());
        assert_eq!((plan.expectation, plan.remarks), (None, vec![Remark::BeingDeleted]));
        assert!(plan.status.is_some(), "the status is still told");
    }
}

/// Claims and status go on; only managing pods waits until the expectations expire.
///
/// Contract: EX-07
#[test]
fn unmet_expectations_stop_only_the_pods() {
    let expires_in = Duration::from_secs(200);
    for count in [0, 5] {
        let snapshot = Snapshot {
            memory: remembered(|memory| memory.expected = Expected::Pending { expires_in }),
            ..snapshot(replica_set(2), pods(count))
        };
        let plan = planned(&snapshot);
        assert!(plan.is_quiet());
        assert_eq!((&plan.expectation, &plan.remarks), (&None, &vec![Remark::ExpectationsPending]));
        assert!(plan.status.is_some());
        assert_eq!(plan.requeue, Requeue::After(expires_in));
    }
    let waiting = Snapshot {
        memory: remembered(|memory| memory.expected = Expected::Pending { expires_in }),
        ..snapshot(replica_set(1), [orphan("a", 11)])
    };
    assert_eq!(preview(&waiting, NOW).0.patches.len(), 1);
}

/// Of several reasons to look again the earliest counts.
///
/// Contract: EX-07, RS-18
#[test]
fn pods_turn_available_while_expectations_are_unmet() {
    let looked_at_after = |expires_in: u64| {
        let expires_in = Duration::from_secs(expires_in);
        let young = muster_objects::Pod { ready: ready_since(Some(ago(20))), ..pod("a", 11) };
        let owner = ReplicaSet { min_ready_seconds: 60, ..replica_set(2) };
        let memory = remembered(|memory| memory.expected = Expected::Pending { expires_in });
        planned(&Snapshot { memory, ..snapshot(owner, [young]) }).requeue
    };
    assert_eq!(looked_at_after(200), Requeue::After(Duration::from_secs(40)));
    assert_eq!(looked_at_after(30), Requeue::After(Duration::from_secs(30)));
}

/// Creations wait, deletions do not; the owner is looked at when the wait is over.
///
/// Contract: B-08
#[test]
fn the_brake_holds_creations_only() {
    let wait = Duration::from_secs(4);
    let braked = |replicas| Snapshot {
        memory: remembered(|memory| memory.creations_wait = Some(wait)),
        ..snapshot(replica_set(replicas), pods(2))
    };
    let plan = planned(&braked(3));
    assert!(plan.is_quiet());
    assert_eq!((plan.remarks, plan.requeue), (vec![Remark::BackingOff(wait)], Requeue::After(wait)));
    assert_eq!(planned(&braked(1)).deletions().count(), 1);
    assert_eq!(planned(&braked(2)).requeue, Requeue::None);
}

/// Labels, annotations, finalizers and spec are unchanged, including unknown fields.
///
/// Contract: RS-10
#[test]
fn a_pod_is_its_template_with_a_name_and_an_owner() {
    let template = json!({
        "metadata": {
            "labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
            "name": "ignored", "creationTimestamp": null,
        },
        "spec": {"containers": [{"name": "c", "image": "nginx", "newField": {"x": [1.50, "1"]}}]},
    });
    let owner = decode(&json!({
        "metadata": {"namespace": "default", "name": "web", "uid": uid(1), "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }));
    let plan = planned(&snapshot(owner, []));
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "web-",
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "finalizers": template["metadata"]["finalizers"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid(1),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    });
    assert_eq!(body(&plan), expected);
}

/// The dash is left out where the name would be no valid prefix with it.
///
/// Contract: RS-10
#[test]
fn a_pods_name_begins_with_its_owners() {
    let generate_name = |name: &str| {
        let mut owner = replica_set(1);
        owner.meta.name = name.into();
        body(&planned(&snapshot(owner, [])))["metadata"]["generateName"].clone()
    };
    assert_eq!(generate_name("web"), "web-");
    // Upstream's check looks at the name with its last two characters masked, so a long one keeps its dash.
    let long = "a".repeat(253);
    assert_eq!(generate_name(&long), *format!("{long}-"));
    let longer = "a".repeat(254);
    assert_eq!(generate_name(&longer), *longer);
}

/// Contract: RS-10
#[test]
fn a_template_without_labels_makes_no_pod() {
    let mut owner = replica_set(2);
    owner.template = std::sync::Arc::new(Template::default());
    assert_eq!(*owner.template.labels(), Labels::EMPTY);
    let plan = planned(&snapshot(owner, []));
    let failure = Failure::local("unable to create pods, no labels");
    assert_eq!((&plan.steps, &plan.expectation), (&vec![Step::Fail(failure)], &None));
    let status = plan.status.expect("the failure is told").status;
    assert_eq!(status["conditions"][0]["message"], "unable to create pods, no labels");
}

/// A dry run of a ReplicaSet with a bit of everything.
///
/// Contract: RS-06, RS-09, RS-17
#[test]
fn a_plan_prints_itself() {
    let mut stray = pod("web-stray", 13);
    stray.meta.labels = labels(&[("app", "other")]);
    let (claims, plan) = preview(&snapshot(replica_set(5), [pod("web-1", 11), orphan("lost", 12), stray]), NOW);
    let owner = "ReplicaSet default/web (uid 00000000-0000-4000-8000-000000000001, version 100, generation 1)";
    assert_eq!(
        claims.to_string(),
        format!(
            "{owner}\n  read ReplicaSet default/web before the first adoption\n  \
             adopt Pod default/lost (uid 00000000-0000-4000-8000-00000000000c)\n  \
             release Pod default/web-stray (uid 00000000-0000-4000-8000-00000000000d)\n"
        ),
    );
    let bytes = match &plan.steps[0] {
        Step::Create(creation) => creation.body.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        plan.to_string(),
        format!(
            "{owner}\n  expect 3 creations\n  create 3 Pods in default, in batches of 1, 2 ({bytes} bytes each)\n  \
             status {{\"availableReplicas\":2,\"fullyLabeledReplicas\":2,\"observedGeneration\":1,\"readyReplicas\":2,\
             \"replicas\":2,\"terminatingReplicas\":0}}\n  look again when something changes\n"
        ),
    );
}

/// Contract: RS-13, RS-18
#[test]
fn a_scale_down_prints_itself() {
    let mut owner = ReplicaSet { min_ready_seconds: 60, ..replica_set(1) };
    owner.status.replicas = 3;
    let young = muster_objects::Pod { ready: ready_since(Some(ago(20))), ..pod("web-2", 12) };
    let (_, plan) =
        preview(&snapshot(owner, [pod("web-1", 11), young, pending("web-3", 13), terminating(pod("web-4", 14))]), NOW);
    assert_eq!(
        plan.to_string(),
        "ReplicaSet default/web (uid 00000000-0000-4000-8000-000000000001, version 100, generation 1)\n  \
         a ready victim is 1 times as old as the youngest\n  \
         expect 2 deletions\n  \
         delete Pod default/web-3 (uid 00000000-0000-4000-8000-00000000000d, version 1013)\n  \
         delete Pod default/web-2 (uid 00000000-0000-4000-8000-00000000000c, version 1012)\n  \
         status {\"availableReplicas\":1,\"fullyLabeledReplicas\":3,\"observedGeneration\":1,\"readyReplicas\":2,\
         \"replicas\":3,\"terminatingReplicas\":1}\n  \
         look again after 40s\n",
    );
}
