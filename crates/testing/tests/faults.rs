//! Faults between the clients of a cluster and its server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use muster_testing::{Cluster, Fault, Faults, Refusal, Rule, Verb};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn they_strike_the_clients_and_not_the_observer() {
    let faults = Faults::seeded(7);
    faults.add(Rule::always(Fault::Delay(Duration::from_secs(3)..Duration::from_secs(4))).verbs(&[Verb::List]));
    faults.add(Rule::always(Fault::AnswerLost).verbs(&[Verb::Create]));
    let cluster = Cluster::builder().nodes(0).faults(faults.clone()).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let seen: Api<ConfigMap> = Api::default_namespaced(cluster.observer());

    let begun = Instant::now();
    seen.list(&ListParams::default()).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    maps.list(&ListParams::default()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(3));

    let map =
        ConfigMap { metadata: ObjectMeta { name: Some("a".to_owned()), ..Default::default() }, ..Default::default() };
    assert!(maps.create(&PostParams::default(), &map).await.is_err(), "its answer was lost");
    assert!(seen.get("a").await.is_ok(), "and it was taken all the same");

    faults.end();
    faults.add(Rule::always(Fault::Refuse(Refusal::Conflict)));
    let refused = maps.get("a").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
    let as_user = cluster.client_as("alice", &["system:masters"]);
    assert!(Api::<ConfigMap>::all(as_user).list(&ListParams::default()).await.is_err());
}
