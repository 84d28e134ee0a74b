//! What can be done to the managers of a running `muster up`, and what is done to them now.

use std::sync::Arc;
use std::time::Duration;

use muster_cluster::managers::{Managers, NotKilled};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::live::SeenFaults;
use super::resource::Resource;
use super::watches::Watches;

/// How long watches can be held. Less is hardly seen; and expectations of what a held watch does not show are given up after
/// 5 minutes (EX-02), so that a controller would act on a cache that it knows nothing of.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// The managers and their watches. Cloning shares them.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    watches: Arc<Watches>,
    managers: Arc<Managers>,
}

/// For how long watches are held: 1 s to 5 min.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HoldTime(Duration);

/// What there is at one moment. Its JSON is the answer to `GET /muster/faults`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The managers that run, the oldest first.
    pub(crate) managers: Vec<SeenManager>,
    /// Their watches, by resource.
    pub(crate) watches: Vec<SeenWatches>,
    /// What strikes whoever comes over HTTP.
    #[serde(default)]
    pub(crate) faults: SeenFaults,
}

/// A manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeenManager {
    /// Such as `muster-1`.
    pub(crate) identity: String,
    /// Whether it leads.
    pub(crate) leading: bool,
}

/// The watches of a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenWatches {
    /// Its plural.
    pub(crate) resource: String,
    /// How many are open, of all managers together.
    pub(crate) open: usize,
    /// How many more seconds they are held; none where they are not.
    pub(crate) held_seconds: Option<f64>,
}

impl HoldTime {
    /// # Errors
    /// What was expected in its place.
    pub(crate) fn of(time: Duration) -> Result<Self, String> {
        if (SHORTEST..=LONGEST).contains(&time) {
            Ok(Self(time))
        } else {
            Err(format!("found {time:?}, expected a duration from 1s to 5m"))
        }
    }

    /// As a duration.
    pub(crate) fn get(self) -> Duration {
        self.0
    }
}

impl Stage {
    /// The managers, and the watches that they have open.
    pub(crate) fn new(watches: Arc<Watches>, managers: Arc<Managers>) -> Self {
        Self { watches, managers }
    }

    /// Holds the watches of a resource for a time: nothing passes until it is over, then all of it in order. A second hold
    /// takes the place of the first. Says how many watches are open.
    pub(crate) fn hold(&self, resource: Resource, time: HoldTime) -> usize {
        self.watches.hold(resource, Instant::now() + time.0)
    }

    /// Cuts the watches of a resource, or of all, as a connection that breaks does. Says how many there were.
    pub(crate) fn cut(&self, resource: Option<Resource>) -> usize {
        self.watches.cut(resource)
    }

    /// Kills the manager that leads. Says who that was.
    ///
    /// # Errors
    /// Where there is one manager only, or none leads.
    pub(crate) fn kill_leader(&self) -> Result<String, NotKilled> {
        self.managers.kill_leader()
    }

    /// Who leads, and what holds.
    pub(crate) fn seen(&self) -> Seen {
        let managers = self.managers.seen().into_iter();
        let watches = Resource::ALL.map(|resource| {
            let (open, held) = self.watches.of(resource);
            let held = held.map(|until| until.saturating_duration_since(Instant::now()));
            SeenWatches {
                resource: resource.plural().to_owned(),
                open,
                held_seconds: held.map(|left| left.as_secs_f64()),
            }
        });
        Seen {
            managers: managers.map(|seen| SeenManager { identity: seen.identity, leading: seen.leading }).collect(),
            watches: watches.into(),
            faults: SeenFaults::default(),
        }
    }
}
