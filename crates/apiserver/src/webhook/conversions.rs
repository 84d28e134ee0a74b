//! Webhooks that convert custom objects, for those who wait for them.
//!
//! Reading an object is no async work, but for the few that a webhook has to tell in another version. Those calls run in a
//! runtime of their own, which is made for the first of them; who reads waits for the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::time::Duration;

use bytes::Bytes;
use muster_tree::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::Client;
use crate::custom::conversion::Caller;
use crate::model::Object;
use crate::registry::Registry;

/// How long a webhook may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much longer is waited for a call that has run out of time to say so.
const GRACE: Duration = Duration::from_secs(5);
/// How long it may still take when the server stops.
const LAST: Duration = Duration::from_secs(3);
/// So many clients are kept.
const MOST_CLIENTS: usize = 256;

/// Calls webhooks that convert.
#[derive(Debug)]
pub struct Conversions {
    registry: Weak<Registry>,
    clients: Mutex<BTreeMap<String, Arc<Client>>>,
    runtime: OnceLock<Option<Runtime>>,
    stopping: Receiver<bool>,
}

impl Conversions {
    /// A caller for a registry, by which it finds Services. Once `stopping` is true nobody waits for long any more.
    #[must_use]
    pub fn new(registry: &Arc<Registry>, stopping: Receiver<bool>) -> Self {
        Self { registry: Arc::downgrade(registry), clients: Mutex::default(), runtime: OnceLock::new(), stopping }
    }

    /// The client of a webhook, which keeps its connections.
    fn client(&self, config: &Object) -> Arc<Client> {
        let key = Value::Object(config.clone()).to_string();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MOST_CLIENTS && !clients.contains_key(&key) {
            clients.clear();
        }
        Arc::clone(clients.entry(key).or_insert_with(|| Arc::new(Client::new(config))))
    }
}

impl Drop for Conversions {
    fn drop(&mut self) {
        // A runtime may not be dropped where another one runs.
        if let Some(Some(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Caller for Conversions {
    fn uid(&self) -> String {
        self.registry.upgrade().map(|registry| registry.generator.uid()).unwrap_or_default()
    }

    fn post(&self, config: &Object, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let registry = self.registry.upgrade().ok_or("the server is stopping")?;
        let runtime = self.runtime.get_or_init(|| {
            Builder::new_multi_thread().worker_threads(1).thread_name("conversions").enable_all().build().ok()
        });
        let runtime = runtime.as_ref().ok_or("there is no thread to call it from")?;
        let client = self.client(config);
        let (answer, wait) = mpsc::channel();
        let mut stopping = self.stopping.clone();
        runtime.spawn(async move {
            let stopped = async {
                let _ = stopping.wait_for(|stops| *stops).await;
                tokio::time::sleep(LAST).await;
            };
            tokio::select! {
                // Who does not wait any more needs no answer.
                called = client.post(&registry, Bytes::from(body), Instant::now() + PATIENCE) => {
                    let _ = answer.send(called);
                }
                () = stopped => {}
            }
        });
        let called = wait.recv_timeout(PATIENCE + GRACE).map_err(|_| "context deadline exceeded".to_owned())?;
        let answer = called.map_err(|error| error.to_string())?;
        if (200..=299).contains(&answer.status) { Ok(answer.body.to_vec()) } else { Err(answer.refusal()) }
    }
}
