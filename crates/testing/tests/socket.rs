//! A cluster that listens: by HTTPS, with a kubeconfig.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_testing::Cluster;

#[muster_testing::test(paused = false, nodes = 0)]
async fn a_client_finds_it_by_the_kubeconfig(cluster: &Cluster) {
    let endpoint = cluster.listen().await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&endpoint.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert_eq!(config.cluster_url.to_string(), format!("{}/", endpoint.url));
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config.clone()).unwrap());
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);

    let mut stranger = config;
    stranger.auth_info = kube::config::AuthInfo::default();
    let refused = Api::<Namespace>::all(Client::try_from(stranger).unwrap()).list(&ListParams::default()).await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
}

#[tokio::test]
async fn its_token_is_not_that_of_its_seed() {
    let token = async || {
        let cluster = Cluster::builder().seed(7).nodes(0).controllers("").start().await.unwrap();
        cluster.listen().await.unwrap().token
    };
    let (one, other) = (token().await, token().await);
    assert!(one.len() >= 32 && one != other, "whoever knows the seed knows the token: {one}, {other}");
}
