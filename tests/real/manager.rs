//! `muster controller-manager` as a process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::process::Process;
use crate::wait::eventually;

/// The program under test.
pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");
/// An election with room for a machine that is too busy to answer a renewal for twenty seconds.
pub(crate) const ROOMY: &[&str] =
    &["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=24s", "--leader-elect-retry-period=1s"];
/// An election that a minute without a server does not end.
pub(crate) const PATIENT: &[&str] = &["--leader-elect-lease-duration=20m", "--leader-elect-renew-deadline=15m"];

/// A controller manager. Killed when dropped.
pub(crate) struct Manager {
    process: Process,
    name: String,
}

impl Manager {
    /// Starts one with that kubeconfig. Its log goes into the folder, under its name.
    pub(crate) fn start(name: &str, kubeconfig: &Path, folder: &Path, more: &[&str]) -> Self {
        let mut arguments: Vec<OsString> = vec!["controller-manager".into(), "--secure-port=0".into(), "-v=4".into()];
        arguments.extend(["--kubeconfig".into(), kubeconfig.into()]);
        arguments.extend(more.iter().map(OsString::from));
        let process = Process::start(Path::new(MUSTER), &arguments, folder.join(format!("{name}.log")));
        Self { process, name: name.to_owned() }
    }

    /// Waits until its log has a line that contains this.
    pub(crate) fn says(&mut self, words: &str) {
        let log: PathBuf = self.process.log_file().to_owned();
        let Self { process, name } = self;
        eventually(&format!("{words:?} in {}", log.display()), || {
            if process.log().contains(words) {
                return Ok(());
            }
            if let Some(status) = process.ended() {
                panic!("{name} ended with {status} and never said {words:?}; see {}", log.display());
            }
            Err(format!("a log that ends with {:?}", process.log().lines().last().unwrap_or_default()))
        });
    }

    /// Whether its log contains this.
    pub(crate) fn has_said(&self, words: &str) -> bool {
        self.process.log().contains(words)
    }

    /// Sends it a signal, such as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits for its end.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let Self { process, name } = self;
        eventually(&format!("the end of {name}"), || process.ended().ok_or_else(|| "it runs".to_owned()))
    }
}
