//! What is left of a member that was killed.

use std::sync::Arc;
use std::time::Duration;

use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_objects::time::Timestamp;
use muster_runtime::candidate::Candidate;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::clock::Clock;
use muster_runtime::manager::Options;
use muster_runtime::shutdown;
use muster_simulation::candidate::{Config, group};
use muster_simulation::world::EPOCH_NANOS;
use tower::ServiceExt as _;

/// Who plays many histories would be short of memory.
///
/// Contract: SH-01
#[test]
fn nothing_is_kept_of_a_member_that_was_killed_with_its_shards_open() {
    let alive = Arc::new(());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let epoch = Timestamp::from_nanos(EPOCH_NANOS);
        let server = ApiServer::new(ServerOptions::seeded(1, epoch));
        let (service, held) = (server.service(), Arc::clone(&alive));
        let transport = tower::service_fn(move |request| {
            let _ = &held;
            service.clone().oneshot(request)
        });
        let options = ClientOptions { clock: Clock::starting_at(epoch), protobuf: false, ..ClientOptions::default() };
        let client = Client::in_process(transport, &options);
        let (_stop, stopped) = shutdown::channel();
        let election = Config::new("kube-system", "manager", "one".to_owned());
        let config = group::Config { election, group: "all".to_owned(), shards: 4 };
        let member = Candidate::start_in_group(&client, config, Options::default(), stopped).unwrap();
        while member.handle().unwrap().explainers().len() < 4 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(Arc::strong_count(&alive) > 1);
    });
    drop(runtime);
    assert_eq!(Arc::strong_count(&alive), 1, "a client is still there");
}
