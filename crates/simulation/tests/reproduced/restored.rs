//! A server that was put back to an earlier version, and gives versions again that its clients have seen.

use std::time::Duration;

use http::Method;
use muster_simulation::faults::{Fault, Refusal, Rule, Verb};
use muster_simulation::world::CONTROLLERS;
use muster_simulation::{Faults, Settings, World};
use muster_tree::json;

use crate::common::{Api, PODS, SETS, at_once, in_virtual_time, name, pass};

/// What a watch was not told after a restore stays unseen until the audit finds it. A pod that the cache still shows as
/// the ReplicaSet's and that is not its any more is left alone, and looked at again with pauses that grow.
///
/// Contract: B-02
#[test]
fn a_pod_that_the_cache_is_wrong_about_is_not_looked_at_on_and_on() {
    let attempts = in_virtual_time(deletions_of_a_pod_that_was_released());
    assert!((2..20).contains(&attempts), "{attempts} attempts within a minute");
}

/// How often within a minute the controllers tried to delete a pod that is no longer theirs.
async fn deletions_of_a_pod_that_was_released() -> usize {
    let faults = Faults::seeded(1);
    let world = World::start(Settings { bare: true, faults: Some(faults.clone()), ..at_once(1) }).await.unwrap();
    let api = Api::of(&world);
    let labels = json!({"app": "web"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        },
    });
    assert_eq!(api.post(SETS, &set).await.0, 201);
    pass(Duration::from_secs(5)).await;
    let pod = format!("{PODS}/{}", name(&api.list(PODS).await[0]));
    let earlier = world.storage().version();
    let note = async |number: u64, label: &str| {
        let metadata = json!({"annotations": {"number": number.to_string()}, "labels": {"app": label}});
        assert_eq!(api.merge(&pod, &json!({"metadata": metadata})).await.0, 200);
    };
    for number in 0..20 {
        note(number, "web").await;
    }
    pass(Duration::from_secs(1)).await;
    let seen = world.storage().version();

    // The watches come back when the server has given again all the versions that they have seen.
    world.storage().restore(earlier).unwrap();
    faults.add(Rule::always(Fault::Refuse(Refusal::VersionTooLarge)).verbs(&[Verb::Watch]));
    note(20, "other").await;
    let configuration = "/api/v1/namespaces/default/configmaps";
    while world.storage().version() <= seen {
        let one = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}});
        assert_eq!(api.post(configuration, &one).await.0, 201);
    }
    faults.end();
    pass(Duration::from_secs(40)).await;
    // Requests take time, or a minute of them would have no end.
    faults.add(Rule::always(Fault::Delay(Duration::from_millis(1)..Duration::from_millis(2))).of(CONTROLLERS));
    let before = world.history().since(0).len();
    assert_eq!(api.merge(&format!("{SETS}/web"), &json!({"spec": {"replicas": 0}})).await.0, 200);
    pass(Duration::from_secs(60)).await;
    let writes = world.history().since(before);
    let attempts = writes.iter().filter(|write| write.who == CONTROLLERS && write.method == Method::DELETE).count();
    assert_eq!(api.list(PODS).await.len(), 1, "it is left alone");
    world.stop().await;
    attempts
}

/// The versions that the server gives after a restore are some that the cache had reached before. A cache that is still from
/// before it must not be taken for one that shows what was just created.
///
/// Contract: B-01, RS-19
#[test]
fn pods_are_made_once_after_a_restore() {
    assert_eq!(in_virtual_time(pods_of_five_after_a_restore()), 5);
}

/// How many pods a ReplicaSet has that was scaled to five after a restore of which the watch of pods does not tell.
async fn pods_of_five_after_a_restore() -> usize {
    let faults = Faults::seeded(1);
    let world = World::start(Settings { bare: true, faults: Some(faults.clone()), ..at_once(1) }).await.unwrap();
    let api = Api::of(&world);
    let labels = json!({"app": "web"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        },
    });
    assert_eq!(api.post(SETS, &set).await.0, 201);
    pass(Duration::from_secs(5)).await;
    let pod = format!("{PODS}/{}", name(&api.list(PODS).await[0]));
    let earlier = world.storage().version();
    for number in 0..100 {
        let metadata = json!({"annotations": {"number": number.to_string()}});
        assert_eq!(api.merge(&pod, &json!({"metadata": metadata})).await.0, 200);
    }
    pass(Duration::from_secs(1)).await;
    world.storage().restore(earlier).unwrap();
    faults.add(Rule::always(Fault::Refuse(Refusal::VersionTooLarge)).verbs(&[Verb::Watch]).resources(&["pods"]));
    pass(Duration::from_secs(60)).await;
    assert_eq!(api.merge(&format!("{SETS}/web"), &json!({"spec": {"replicas": 5}})).await.0, 200);
    pass(Duration::from_secs(60)).await;
    let pods = api.list(PODS).await.len();
    world.stop().await;
    pods
}
