//! Deployments and ReplicationControllers, as their controllers read them.

use muster_objects::{
    Condition, Deployment, IntOrPercent, Interner, Object, ReplicationController, Selector, Strategy, TemplateError,
};

fn deployment(json: &str) -> Deployment {
    Deployment::decode(json.as_bytes(), &mut Interner::new()).expect("a Deployment")
}

fn controller(json: &str) -> ReplicationController {
    ReplicationController::decode(json.as_bytes(), &mut Interner::new()).expect("a ReplicationController")
}

/// Contract: DEP-03, DEP-06, DEP-15, DEP-17
#[test]
fn a_whole_deployment() {
    let deployment = deployment(
        r#"{"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"9","generation":3,
        "annotations":{"deployment.kubernetes.io/revision":"2"}},
        "spec":{"replicas":4,"minReadySeconds":5,"revisionHistoryLimit":0,"paused":true,"progressDeadlineSeconds":600,
        "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},
        "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"tomorrow":1}}},
        "status":{"replicas":5,"updatedReplicas":2,"unavailableReplicas":1,"observedGeneration":3,"collisionCount":2,
        "terminatingReplicas":0,"conditions":[{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated",
        "lastUpdateTime":"2026-01-02T15:04:05Z","lastTransitionTime":"2026-01-02T15:04:05Z"}]}}"#,
    );
    assert_eq!((deployment.meta.key().to_string().as_str(), deployment.meta.generation), ("shop/web", 3));
    assert_eq!(deployment.annotations.get("deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!((deployment.replicas, deployment.min_ready_seconds, deployment.paused), (4, 5, true));
    assert_eq!((deployment.revision_history_limit, deployment.progress_deadline_seconds), (Some(0), Some(600)));
    let bounds =
        Strategy::RollingUpdate { max_surge: IntOrPercent::Percent(25), max_unavailable: IntOrPercent::Int(1) };
    assert_eq!(deployment.strategy, bounds);
    assert!(deployment.template.raw().contains("tomorrow"), "what is not known is carried");
    let status = &deployment.status;
    assert_eq!((status.replicas, status.updated_replicas, status.ready_replicas), (5, 2, 0));
    assert_eq!((status.terminating_replicas, status.collision_count), (Some(0), Some(2)));
    let progressing = Condition::find(&status.conditions, "Progressing").expect("the condition");
    assert_eq!(progressing.last_update_time, progressing.last_transition_time);
}

/// What a server always fills in may be absent all the same, or null.
///
/// Contract: DEP-07, DEP-14, DEP-17
#[test]
fn what_is_absent_has_its_zero_value() {
    for spec in ["{}", r#"{"replicas":null,"strategy":null,"selector":null,"template":null,"paused":null}"#] {
        let deployment = deployment(&format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#));
        assert_eq!((deployment.replicas, deployment.paused), (1, false));
        assert_eq!((deployment.revision_history_limit, deployment.progress_deadline_seconds), (None, None));
        assert!(deployment.selector.as_ref().is_ok_and(Selector::is_nothing));
        let none = IntOrPercent::Int(0);
        assert_eq!(deployment.strategy, Strategy::RollingUpdate { max_surge: none.clone(), max_unavailable: none });
    }
    assert_eq!(deployment(r#"{"spec":{"strategy":{"type":"Recreate"}}}"#).strategy, Strategy::Recreate);
    let other = deployment(r#"{"spec":{"strategy":{"type":"Leap"}}}"#).strategy;
    assert_eq!(other, Strategy::Other("Leap".into()));
}

/// Contract: RC-01, RC-02
#[test]
fn a_replication_controller_selects_by_a_plain_map() {
    let web = controller(
        r#"{"metadata":{"name":"web"},"spec":{"replicas":3,"minReadySeconds":2,"selector":{"app":"web","tier":"front"},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{}}},
        "status":{"replicas":2,"readyReplicas":1,"terminatingReplicas":7}}"#,
    );
    assert_eq!(web.selector.as_ref().map(ToString::to_string).as_deref(), Ok("app=web,tier=front"));
    assert_eq!((web.replicas, web.min_ready_seconds, web.template.labels().get("app")), (3, 2, Some("web")));
    assert_eq!((web.status.replicas, web.status.ready_replicas), (2, 1));
    assert_eq!(web.status.terminating_replicas, None, "the kind has no such field");
    let bare = controller(r#"{"spec":{}}"#);
    assert!(bare.selector.as_ref().is_ok_and(Selector::is_nothing));
    assert_eq!(
        bare.template.pod_body(&muster_objects::ControllerRef::to("v1", "ReplicationController", &bare.meta)),
        Err(TemplateError::NoLabels)
    );
    let wrong = ReplicationController::decode(br#"{"spec":{"selector":{"app":1}}}"#, &mut Interner::new());
    assert!(wrong.is_err(), "labels are strings");
}
