//! A program of the control plane as a child process: its log in a file, killed when dropped.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A running program.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it. What it says is added to the log.
    pub(crate) fn start(program: &Path, arguments: &[OsString], log: PathBuf) -> Self {
        let open = OpenOptions::new().create(true).append(true).open(&log);
        let file = open.unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let child = Command::new(program)
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle of the log"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        Self { child, log }
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The file with what it says.
    pub(crate) fn log_file(&self) -> &Path {
        &self.log
    }

    /// How it ended, where it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is our child")
    }

    /// Sends it a signal, such as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success(), "kill {signal} of {}", self.log.display());
    }

    /// Kills it (`SIGKILL`) and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports of loopback that nobody has. They are below those that the system gives to outgoing connections, one of which
/// could take a port before a server is there; and each is given once in this process.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let next = || {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(61).wrapping_add(given) % 12_000;
        20_000 + u16::try_from(place).expect("less than 12,000")
    };
    std::array::from_fn(|_| std::iter::repeat_with(next).take(12_000).find(is_free).expect("a free port of loopback"))
}
