//! A controller manager with leader election, wired as in the program, in a process that can be killed and frozen.

use std::sync::Arc;

use muster_runtime::clock::Clock;
use muster_runtime::election::{Elector, Leadership, Lost};
use muster_runtime::manager::{Manager, Options};
use muster_runtime::process::Process;
use muster_runtime::shutdown::{self, Trigger};
use tokio::task::JoinHandle;

pub use muster_machinery::election::{Config, ConfigError};

use crate::faults::Draw;
use crate::world::World;

/// A process, and the means to stop it.
#[derive(Debug)]
pub struct Candidate {
    process: Process,
    running: JoinHandle<Result<(), Lost>>,
    /// Kept, because dropping the trigger stops the process.
    _never: Trigger,
}

impl Candidate {
    /// Starts one called `name`, which is its identity and its name in the history. It uses the world's clock unless it
    /// is given its own.
    ///
    /// # Errors
    /// If the election's settings are refused.
    pub fn start(
        world: &World,
        name: &'static str,
        config: Config,
        clock: Option<Clock>,
        options: Options,
    ) -> Result<Self, ConfigError> {
        let process = Process::default();
        let seed = options.seed;
        let client = world.client_of(name, clock);
        let elector = Elector::new(Config { identity: name.to_owned(), ..config }, client.clone(), seed)?;
        let leadership: Leadership = elector.leadership();
        let writer = client.fenced(leadership.fence());
        let manager = Manager::with_writer(&client, Arc::new(writer), options);
        let events = manager.context().events.clone();
        let (never, stopped) = shutdown::channel();
        let mut electing = process.spawn(elector.run(events, stopped.clone()));
        let mut managing = process.spawn(manager.run_leading(leadership.leading(), stopped));
        let whole = process.clone();
        let running = process.spawn(async move {
            let ended = tokio::select! {
                biased;
                ended = &mut electing => ended,
                ended = &mut managing => ended.map(Ok),
            };
            // A process that exits stops all its tasks.
            electing.abort();
            managing.abort();
            whole.freeze();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        });
        Ok(Self { process, running, _never: never })
    }

    /// SIGKILL: nothing more is sent. Requests on their way go on.
    pub fn kill(self) {
        self.process.freeze();
        self.running.abort();
    }

    /// SIGSTOP.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// SIGCONT: its tasks continue in an order drawn from the seed.
    pub fn thaw(&self, seed: u64) {
        let mut draw = Draw::seeded(seed);
        self.process.thaw(|ready| {
            for last in (1..ready.len()).rev() {
                let other = draw.below(u64::try_from(last).unwrap_or_default() + 1);
                ready.swap(last, usize::try_from(other).unwrap_or_default());
            }
        });
    }

    /// Whether it has exited.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for its exit.
    ///
    /// # Errors
    /// The lease that it lost, if that is why it ended.
    pub async fn ended(self) -> Result<(), Lost> {
        self.running.await.unwrap_or(Ok(()))
    }
}
