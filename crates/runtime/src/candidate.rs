//! A manager that leads while it holds a Lease, as a process within this process: it can be killed and frozen.
//!
//! What the program does with two processes is done here with two of these. A manager that loses its lease ends, as a
//! process would.

use std::{pin::pin, sync::Arc};

use muster_machinery::{
    election::{Config, ConfigError},
    group::{self, GroupError},
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

use crate::{
    client::Client,
    election::{Elector, Lost},
    explain::Explainer,
    group::{Member, MemberHandle},
    manager::{Manager, Options},
    process::Process,
    shutdown::{self, Shutdown},
};

/// A manager that is a candidate, and runs. Dropping it kills it.
pub struct Candidate {
    running: JoinHandle<Result<(), Lost>>,
    process: Process,
    leading: watch::Receiver<bool>,
    explainer: Explainer,
    handle: Option<MemberHandle>,
}

/// The means to kill a [`Candidate`] that somebody else waits for.
#[derive(Clone, Debug)]
pub struct Killer {
    process: Process,
    running: AbortHandle,
}

impl Candidate {
    /// Starts one that reads, writes and is elected through `client`. At `shutdown` its syncs finish, and then it gives
    /// up its lease (CM-07).
    ///
    /// # Errors
    /// If the election's settings are refused.
    pub fn start(client: &Client, config: Config, options: Options, shutdown: Shutdown) -> Result<Self, ConfigError> {
        let process = Process::default();
        let elector = Elector::new(config, client.clone(), options.seed)?;
        let leadership = elector.leadership();
        let leading = leadership.leading();
        let writer = client.fenced(leadership.fence());
        let manager = Manager::with_writer(client, Arc::new(writer), options);
        let explainer = manager.explainer();
        let events = manager.context().events.clone();
        let whole = process.clone();
        let running = process.spawn(async move {
            let (stop_election, election_stopped) = shutdown::channel();
            let mut electing = pin!(elector.run(events, election_stopped));
            let mut managing = pin!(manager.run_leading(leadership.leading(), shutdown));
            let ended = tokio::select! {
                biased;
                ended = &mut electing => ended,
                () = &mut managing => {
                    // Nobody else leads while something is still being written.
                    stop_election.stop();
                    electing.await
                }
            };
            // A process that exits stops all its tasks.
            whole.freeze();
            ended
        });
        Ok(Self { running, process, leading, explainer, handle: None })
    }

    /// Starts a member of a group that shares the cluster: any number of them work at the same time (SH-01). At
    /// `shutdown` its shards go to others.
    ///
    /// # Errors
    /// If the group's settings are refused.
    pub fn start_in_group(
        client: &Client,
        config: group::Config,
        options: Options,
        shutdown: Shutdown,
    ) -> Result<Self, GroupError> {
        let process = Process::default();
        let member = Member::new(client, client.clone(), config, options)?;
        let (leading, handle) = (member.leadership().leading(), member.handle());
        let whole = process.clone();
        let running = process.spawn(async move {
            let ended = member.run(shutdown).await;
            // A process that exits stops all its tasks.
            whole.freeze();
            ended
        });
        Ok(Self { running, process, leading, explainer: Explainer::default(), handle: Some(handle) })
    }

    /// What a member of a group has; `None` for a candidate that stands alone.
    #[must_use]
    pub fn handle(&self) -> Option<&MemberHandle> {
        self.handle.as_ref()
    }

    /// Whether it leads, or takes part in its group, as it changes.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.clone()
    }

    /// A handle to ask its controllers what they think. Those of a member of a group are asked through its
    /// [`Candidate::handle`].
    #[must_use]
    pub fn explainer(&self) -> Explainer {
        self.explainer.clone()
    }

    /// The process that it is.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The means to kill it.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer { process: self.process.clone(), running: self.running.abort_handle() }
    }

    /// Whether it has exited.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for its exit, also by a kill.
    ///
    /// # Errors
    /// The lease that it lost, if that is why it ended.
    ///
    /// # Panics
    /// If a part of it has.
    pub async fn ended(mut self) -> Result<(), Lost> {
        match (&mut self.running).await {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Ok(()),
        }
    }
}

impl Killer {
    /// SIGKILL: nothing more is sent, and the lease is not given up. Requests on their way go on where the network
    /// carries them.
    pub fn kill(&self) {
        self.process.freeze();
        self.running.abort();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.killer().kill();
    }
}
