//! The programs that envtest starts: this binary under the names `kube-apiserver` and `etcd`, and the command that puts
//! them into a folder (API-36).
//!
//! ```text
//!   muster envtest --install DIR -> install
//!   kube-apiserver ... -> flags (those of the reference) -> settings, access (what they mean here) + extras -> apiserver
//!   etcd ...           -> flags (those of the reference) -> etcd
//! ```

mod access;
mod apiserver;
mod etcd;
mod extras;
mod files;
mod flags;
pub(crate) mod install;
mod settings;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use muster_manager::program;
use muster_manager::signals::Signals;
use tracing_subscriber::EnvFilter;

use self::flags::Given;

/// A program that this binary is when it is called by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The API server.
    KubeApiserver,
    /// What stands in for its storage.
    Etcd,
}

impl Program {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::KubeApiserver, Self::Etcd];

    /// Which of them was called; `None` for `muster` itself.
    pub(crate) fn called(arguments: &[OsString]) -> Option<Self> {
        let name = Path::new(arguments.first()?).file_name()?.to_str()?;
        Self::ALL.into_iter().find(|program| name == program.name())
    }

    /// The name by which it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
        }
    }

    /// Runs it until a signal ends it. Bad flags end it with 1, as they do the reference's programs.
    pub(crate) fn main(self, arguments: Vec<OsString>) -> ExitCode {
        let outcome = match self {
            Self::KubeApiserver => flags::parse(apiserver::reference(), arguments).map(|given| self.run(&given)),
            Self::Etcd => flags::parse(etcd::reference(), arguments).map(|given| self.run(&given)),
        };
        match outcome {
            Ok(code) => code,
            Err(said) => {
                let failed = said.use_stderr();
                // Where nobody reads it, nothing is to be said.
                let _ = said.print();
                if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
            }
        }
    }

    fn run(self, given: &Given) -> ExitCode {
        let verbosity = given.text("v").and_then(|level| level.parse().ok()).unwrap_or_default();
        start_log(verbosity);
        program::run(tokio::runtime::Builder::new_multi_thread(), async {
            // From here on a signal asks for an orderly end.
            let signals = Signals::listen()?;
            match self {
                Self::KubeApiserver => apiserver::run(given, signals).await,
                Self::Etcd => etcd::run(given, signals).await,
            }
        })
    }
}

/// Logs to standard error: warnings, and what happens from verbosity 2 on. `RUST_LOG` overrides it.
fn start_log(verbosity: u8) {
    let directives = match verbosity {
        0..=1 => "warn",
        2..=5 => "warn,muster=info",
        6.. => "info,muster=debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).init();
}

/// Tells in one line which of the flags have no effect here.
fn tell_accepted(given: &Given) {
    let without_effect = given.without_effect();
    if !without_effect.is_empty() {
        tracing::warn!(flags = without_effect.join(" "), "accepted without effect");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-36
    #[test]
    fn the_name_decides_which_program_it_is() {
        let called = |name: &str| Program::called(&[OsString::from(name), "--help".into()]);
        assert_eq!(called("/tmp/assets/kube-apiserver"), Some(Program::KubeApiserver));
        assert_eq!(called("etcd"), Some(Program::Etcd));
        for other in ["muster", "/usr/bin/muster", "kube-apiserver2", "etcd/muster", ""] {
            assert_eq!(called(other), None, "{other}");
        }
        assert_eq!(Program::called(&[]), None);
    }
}
