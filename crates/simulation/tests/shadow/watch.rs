//! A shadow that watches a world.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_inspect::shadow::record::Difference;
use muster_inspect::shadow::{Line, Options as Comparison, Record, Totals};
use muster_runtime::shadow::{Options, Shadow};
use muster_runtime::shutdown::{self, Trigger};
use muster_simulation::World;
use tokio::task::JoinHandle;

use crate::common::pass;

/// Who the shadow is in the history of a world.
pub(crate) const SHADOW: &str = "shadow";

pub(crate) struct Watch {
    lines: Arc<Mutex<Vec<Line>>>,
    running: JoinHandle<Result<(), Infallible>>,
    stop: Trigger,
}

/// The records of a shadow.
pub(crate) struct Told {
    pub(crate) lines: Vec<Line>,
    pub(crate) totals: Totals,
}

impl Watch {
    /// Watches the controllers that write as `manager`, until everything that they did counts.
    pub(crate) async fn start(world: &World, manager: &str) -> Self {
        let comparison = Comparison { manager: manager.to_owned(), ..Comparison::default() };
        let shadow = Shadow::new(&world.client_of(SHADOW, None), Options { comparison, ..Options::default() });
        let mut unsynced = shadow.unsynced();
        let (stop, stopped) = shutdown::channel();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let take = move |new: &[Line]| {
            sink.lock().unwrap().extend_from_slice(new);
            Ok(())
        };
        let running = tokio::spawn(shadow.run(Box::new(take), stopped));
        unsynced.wait_for(|unsynced| *unsynced == 0).await.unwrap();
        // What is done in the first ten seconds may have been decided before.
        pass(Duration::from_secs(11)).await;
        Self { lines, running, stop }
    }

    /// Lets everything come due, and ends.
    pub(crate) async fn end(self) -> Told {
        pass(Duration::from_secs(90)).await;
        self.stop.stop();
        let Ok(()) = self.running.await.unwrap();
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        let totals = lines.iter().rev().find_map(|line| match &line.record {
            Record::Summary(totals) => Some(totals.clone()),
            _ => None,
        });
        Told { lines, totals: totals.expect("it ends with a summary") }
    }
}

impl Told {
    pub(crate) fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.lines.iter().filter_map(|line| match &line.record {
            Record::Difference(difference) => Some(difference),
            _ => None,
        })
    }

    pub(crate) fn agreed(&self, kind: &str, action: &str) -> u64 {
        self.totals.kinds.get(kind).and_then(|actions| actions.get(action)).map_or(0, |counts| counts.agreed)
    }
}
