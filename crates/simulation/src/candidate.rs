//! A controller manager with leader election in a [`World`], in a process that can be killed and frozen.

use muster_runtime::candidate;
use muster_runtime::clock::Clock;
use muster_runtime::election::Lost;
use muster_runtime::explain::Explainer;
use muster_runtime::group::MemberHandle;
use muster_runtime::manager::Options;
use muster_runtime::shutdown::{self, Trigger};

pub use muster_machinery::election::{Config, ConfigError};
pub use muster_machinery::group::{self, GroupError};

use crate::faults::Draw;
use crate::world::World;

/// A process, and the means to stop it. Dropping it kills it.
pub struct Candidate {
    running: candidate::Candidate,
    /// SIGTERM.
    stop: Trigger,
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
        let (stop, stopped) = shutdown::channel();
        let config = Config { identity: name.to_owned(), ..config };
        let running = candidate::Candidate::start(&world.client_of(name, clock), config, options, stopped)?;
        Ok(Self { running, stop })
    }

    /// Starts a member of a group in the same way.
    ///
    /// # Errors
    /// If the group's settings are refused.
    pub fn start_in_group(
        world: &World,
        name: &'static str,
        config: group::Config,
        clock: Option<Clock>,
        options: Options,
    ) -> Result<Self, GroupError> {
        let (stop, stopped) = shutdown::channel();
        let election = Config { identity: name.to_owned(), ..config.election };
        let config = group::Config { election, ..config };
        let running = candidate::Candidate::start_in_group(&world.client_of(name, clock), config, options, stopped)?;
        Ok(Self { running, stop })
    }

    /// SIGTERM: it ends in an orderly way, for [`Candidate::ended`] to wait for.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// What a member of a group has.
    #[must_use]
    pub fn handle(&self) -> Option<&MemberHandle> {
        self.running.handle()
    }

    /// To ask its controllers what they think: those of each of its shards, or all of one that stands alone.
    #[must_use]
    pub fn explainers(&self) -> Vec<Explainer> {
        self.running.handle().map_or_else(|| vec![self.running.explainer()], MemberHandle::explainers)
    }

    /// SIGKILL: nothing more is sent. Requests on their way go on.
    pub fn kill(self) {
        drop(self);
    }

    /// SIGSTOP.
    pub fn freeze(&self) {
        self.running.process().freeze();
    }

    /// SIGCONT: its tasks continue in an order drawn from the seed.
    pub fn thaw(&self, seed: u64) {
        let mut draw = Draw::seeded(seed);
        self.running.process().thaw(|ready| {
            for last in (1..ready.len()).rev() {
                let other = draw.below(u64::try_from(last).unwrap_or_default() + 1);
                ready.swap(last, usize::try_from(other).unwrap_or_default());
            }
        });
    }

    /// Whether it has exited.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    /// Waits for its exit.
    ///
    /// # Errors
    /// The lease that it lost, if that is why it ended.
    pub async fn ended(self) -> Result<(), Lost> {
        self.running.ended().await
    }
}
