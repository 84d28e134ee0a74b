//! The managers of an embedded cluster: one, or several of which one leads and can be killed.
//!
//! ```text
//!   keeper --starts--> Candidate muster-1 (leads)   muster-2 (stands by)     Lease kube-system/muster-controller-manager
//!      ^                    |  killed                   |  leads once the Lease has run out
//!      +--------------------+ ended: once another leads, muster-3 is started
//! ```

use std::fmt::{self, Debug, Formatter};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{self, BoxFuture};
use muster_machinery::election::Config;
use muster_runtime::candidate::{Candidate, Killer};
use muster_runtime::client::Client;
use muster_runtime::election::{COMPONENT, Lost};
use muster_runtime::explain::Explainer;
use muster_runtime::manager::{Manager, Options};
use muster_runtime::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

/// The namespace of the Lease; its name is that of `muster controller-manager`.
const NAMESPACE: &str = "kube-system";
/// How long the Lease of a leader that was killed is respected. No network is between the candidates and their server, so
/// it is shorter than Kubernetes' 15 s.
pub const LEASE_DURATION: Duration = Duration::from_secs(3);
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// The managers of a cluster, to look at and to kill.
#[derive(Debug)]
pub struct Managers {
    /// How many there are to be.
    count: NonZeroUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Running>,
    /// How many were ever started.
    started: u64,
}

/// A manager that was started and has not ended.
struct Running {
    identity: String,
    explainer: Explainer,
    leading: watch::Receiver<bool>,
    /// None where it is the only one.
    killer: Option<Killer>,
}

/// A manager as it is at one moment.
#[derive(Clone)]
pub struct Seen {
    /// What it calls itself in the Lease, such as `muster-1`. No identity is used twice in a process.
    pub identity: String,
    /// Whether it leads. The only one always does.
    pub leading: bool,
    /// A handle to ask its controllers what they think.
    pub explainer: Explainer,
}

/// Why no leader was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKilled {
    /// The only manager takes part in no election, and nobody would follow it.
    #[error("there is one manager only, and none to take over from it")]
    Alone,
    /// The last leader is gone, and its Lease has not run out.
    #[error("no manager leads at the moment")]
    NobodyLeads,
}

impl Managers {
    /// Managers that run with the future that comes with them: one without an election, several with one. It ends after
    /// `shutdown`, once the syncs in progress have finished, and panics where a part of one of them does.
    #[must_use]
    pub fn new(
        client: &Client,
        options: Options,
        count: NonZeroUsize,
        shutdown: Shutdown,
    ) -> (Arc<Self>, BoxFuture<'static, ()>) {
        let managers = Arc::new(Self { count, state: Mutex::default() });
        if count.get() == 1 {
            let manager = Manager::new(client, options);
            let (_always, leading) = watch::channel(true);
            let identity = managers.lock().next_identity();
            managers.lock().add(identity, manager.explainer(), leading, None);
            return (managers, Box::pin(manager.run(shutdown)));
        }
        let mut keeper =
            Keeper { managers: Arc::clone(&managers), client: client.clone(), options, shutdown, ends: JoinSet::new() };
        // The first ones are there at once, for whoever looks.
        (0..count.get()).for_each(|_| keeper.start_another());
        (managers, Box::pin(keeper.run()))
    }

    /// How many there are to be. Of several there is one less for the seconds in which nobody leads.
    #[must_use]
    pub fn count(&self) -> NonZeroUsize {
        self.count
    }

    /// Those that run now, the oldest first.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().running.iter().map(Running::seen).collect()
    }

    /// The one that leads now, if any does.
    #[must_use]
    pub fn leader(&self) -> Option<Seen> {
        self.lock().running.iter().find(|running| running.leads()).map(Running::seen)
    }

    /// Kills the leader as SIGKILL does: all that it does stops where it is, and its Lease is not given up. Another one
    /// leads once the Lease has run out, [`LEASE_DURATION`] after it was last seen to be renewed; then a new one is
    /// started. Says who was killed.
    ///
    /// # Errors
    /// [`NotKilled`] where there is one manager only, or none leads.
    pub fn kill_leader(&self) -> Result<String, NotKilled> {
        let mut state = self.lock();
        let leader = state.running.iter().position(Running::leads).ok_or(NotKilled::NobodyLeads)?;
        let killer = state.running[leader].killer.as_ref().ok_or(NotKilled::Alone)?;
        killer.kill();
        Ok(state.running.remove(leader).identity)
    }

    fn leading(&self) -> Vec<watch::Receiver<bool>> {
        self.lock().running.iter().map(|running| running.leading.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The identity of the next one, which is counted.
    fn next_identity(&mut self) -> String {
        self.started += 1;
        format!("muster-{}", self.started)
    }

    fn add(&mut self, identity: String, explainer: Explainer, leading: watch::Receiver<bool>, killer: Option<Killer>) {
        self.running.push(Running { identity, explainer, leading, killer });
    }
}

impl Running {
    fn seen(&self) -> Seen {
        Seen { identity: self.identity.clone(), leading: self.leads(), explainer: self.explainer.clone() }
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }
}

impl Debug for Running {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("identity", &self.identity).field("leads", &self.leads()).finish()
    }
}

/// Keeps as many candidates as there are to be.
struct Keeper {
    managers: Arc<Managers>,
    client: Client,
    options: Options,
    shutdown: Shutdown,
    /// Waits for the ends of the candidates, each with its identity. Dropping it kills them.
    ends: JoinSet<(String, Result<(), Lost>)>,
}

impl Keeper {
    async fn run(mut self) {
        let mut missing = 0;
        let mut shutdown = self.shutdown.clone();
        loop {
            // Who is started while nobody leads could take over in place of one that stood by.
            let led = led(self.managers.leading());
            tokio::select! {
                biased;
                () = shutdown.stopped() => break,
                Some(ended) = self.ends.join_next() => {
                    self.has_ended(ended);
                    missing += 1;
                }
                () = led, if missing > 0 => {
                    self.start_another();
                    missing -= 1;
                }
            }
        }
        while let Some(ended) = self.ends.join_next().await {
            self.has_ended(ended);
        }
    }

    fn start_another(&mut self) {
        let mut state = self.managers.lock();
        let identity = state.next_identity();
        let options = Options { seed: self.options.seed.wrapping_add(state.started), ..self.options.clone() };
        let started = Candidate::start(&self.client, election(identity.clone()), options, self.shutdown.clone());
        let candidate = started.expect("the settings of the election are constants that keep two leaders apart");
        state.add(identity.clone(), candidate.explainer(), candidate.leading(), Some(candidate.killer()));
        self.ends.spawn(async move { (identity, candidate.ended().await) });
    }

    /// A candidate was killed, was stopped, or has lost its lease: a machine that slept does that to it.
    fn has_ended(&self, ended: Result<(String, Result<(), Lost>), JoinError>) {
        let (identity, why) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return,
        };
        if let Err(lost) = why {
            tracing::warn!(identity, error = %lost, "a manager has ended");
        }
        self.managers.lock().running.retain(|running| running.identity != identity);
    }
}

/// Waits until one of them leads, or there is none that could.
async fn led(candidates: Vec<watch::Receiver<bool>>) {
    let leads = candidates.into_iter().map(|mut leading| {
        Box::pin(async move {
            if leading.wait_for(|leading| *leading).await.is_err() {
                future::pending::<()>().await;
            }
        })
    });
    let leads: Vec<_> = leads.collect();
    if !leads.is_empty() {
        future::select_all(leads).await;
    }
}

/// The election of one candidate.
fn election(identity: String) -> Config {
    Config {
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
        ..Config::new(NAMESPACE, COMPONENT, identity)
    }
}
