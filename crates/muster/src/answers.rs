//! What the controllers of an embedded cluster answer below `/muster/explain` and `/muster/inside` of its server.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Response;
use muster_apiserver::ApiServer;
use muster_apiserver::http::muster::{Asked, Extension};
use muster_cluster::managers::Managers;
use muster_inspect::explain::Role;
use muster_manager::explain::endpoint::{Caller, Explaining};
use muster_manager::explain::teller::Teller;

/// The managers of an embedded cluster.
pub(crate) fn leader(managers: &Arc<Managers>) -> Teller {
    let managers = Arc::clone(managers);
    let role = if managers.count().get() == 1 { Role::Unelected } else { Role::Leader };
    Arc::new(move || managers.leader().map(|leader| (leader.explainer, role)))
}

/// Has an embedded server answer the same below `/muster`.
pub(crate) fn extend(server: &ApiServer, teller: Teller) {
    let explaining = Explaining::new(teller);
    for name in ["explain", "inside"] {
        server.extend(name, Arc::new(Below { name, explaining: explaining.clone() }));
    }
}

/// What answers below `/muster/NAME`.
struct Below {
    name: &'static str,
    explaining: Explaining,
}

impl Extension for Below {
    fn answer(&self, asked: Asked) -> BoxFuture<'_, Response<Bytes>> {
        async move {
            let Asked { method, rest, query, body: _ } = asked;
            let path = format!("/{}/{rest}", self.name);
            let path = if rest.is_empty() { path.trim_end_matches('/') } else { &path };
            self.explaining.answer(Caller::Master, &method, path, &query).await
        }
        .boxed()
    }
}
