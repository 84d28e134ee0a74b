//! A manager's process: started, watched while something is waited for, and ended.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures::future::select_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::usage::Usage;

/// How many lines of a manager's log are kept, for the case that it dies.
const LOG_LINES: usize = 20;
/// How long a manager may take to end in order.
const END: Duration = Duration::from_secs(20);
/// How often is looked whether a manager is still at work.
const LOOK: Duration = Duration::from_millis(500);
/// A manager is at rest that used no more CPU in so many looks one after another ...
const QUIET_LOOKS: usize = 4;
/// ... than this, in seconds.
const QUIET_CPU: f64 = 0.05;

/// A manager that runs. Dropped, it is killed.
pub(super) struct Process {
    name: String,
    child: Child,
    id: u32,
    log: Log,
}

impl Process {
    /// Starts a manager by its command.
    ///
    /// # Errors
    /// Where its program cannot be run.
    pub(super) fn start(name: &str, command: &[String]) -> Result<Self> {
        let (program, arguments) = command.split_first().with_context(|| format!("--manager {name}: no command"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("--manager {name}: {program} cannot be run"))?;
        let log = Log::default();
        for pipe in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
            tokio::spawn(log.clone().follow(pipe));
        }
        let id = child.id().with_context(|| format!("--manager {name}: it ended at once"))?;
        Ok(Self { name: name.to_owned(), child, id, log })
    }

    /// What it has used up to now.
    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::of(self.id).with_context(|| format!("manager {}", self.name))
    }

    /// Waits for `work`, and fails where the manager ends before that.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        Self::all_during(std::slice::from_mut(self), work).await
    }

    /// The same of several managers, of which there must be one at least: it fails where any ends.
    pub(super) async fn all_during<T>(processes: &mut [Self], work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::select! {
            biased;
            (ended, ..) = select_all(processes.iter_mut().map(|process| Box::pin(process.ended()))) => return Err(ended),
            done = work => done,
        };
        // What failed may have failed because one has ended.
        match processes.iter_mut().position(|process| matches!(process.child.try_wait(), Ok(Some(_)))) {
            Some(ended) if done.is_err() => Err(processes[ended].ended().await),
            _ => done,
        }
    }

    /// Waits for its end, and says how that came.
    async fn ended(&mut self) -> anyhow::Error {
        let how = self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        // What it said last may still be in the pipe.
        sleep(Duration::from_millis(50)).await;
        anyhow!("manager {} ended ({how}), its log's last lines:\n{}", self.name, self.log.last_lines())
    }

    /// Waits until the manager uses next to no CPU, and gives what it had used by then.
    ///
    /// # Errors
    /// Where it ends, or is still busy after `at_most`.
    pub(super) async fn at_rest(&mut self, at_most: Duration) -> Result<Usage> {
        let id = self.id;
        let name = self.name.clone();
        self.during(async move {
            let deadline = Instant::now() + at_most;
            let mut seen = VecDeque::from([Usage::of(id)?]);
            loop {
                sleep(LOOK).await;
                let now = Usage::of(id)?;
                seen.push_back(now);
                if seen.len() > QUIET_LOOKS {
                    let before = seen.pop_front().map_or(0.0, |usage| usage.cpu_seconds);
                    if now.cpu_seconds - before <= QUIET_CPU {
                        return Ok(now);
                    }
                }
                if Instant::now() >= deadline {
                    bail!("manager {name} does not come to rest within {at_most:?}");
                }
            }
        })
        .await
    }

    /// Ends it: in order, or else by force.
    pub(super) async fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.id).context("a process id")?;
        // One that has ended by now has nothing to be asked for.
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        if timeout(END, self.child.wait()).await.is_err() {
            eprintln!("manager {} does not end within {END:?} of SIGTERM, it is killed", self.name);
            self.child.kill().await.with_context(|| format!("manager {} cannot be killed", self.name))?;
        }
        Ok(())
    }
}

/// The last lines that a manager wrote. Cloning shares them.
#[derive(Debug, Clone, Default)]
struct Log {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Log {
    async fn follow(self, pipe: Box<dyn AsyncRead + Send + Unpin>) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut line).await, Ok(1..)) {
            self.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > LOG_LINES {
            lines.pop_front();
        }
    }

    fn last_lines(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return "  (nothing)".to_owned();
        }
        lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }
}

fn boxed(pipe: impl AsyncRead + Send + Unpin + 'static) -> Box<dyn AsyncRead + Send + Unpin> {
    Box::new(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(command: &str) -> Result<Process> {
        let (name, command) = command.split_once('=').unwrap();
        Process::start(name, &shlex::split(command).unwrap())
    }

    #[tokio::test]
    async fn one_that_dies_is_told_with_its_last_words() {
        let mut process = start("m=sh -c 'for n in $(seq 1 30); do echo line $n; done; exit 3'").unwrap();
        let waiting = process.during::<()>(std::future::pending()).await;
        let said = format!("{:#}", waiting.unwrap_err());
        assert!(said.contains("manager m ended (exit status: 3)"), "{said}");
        assert!(said.contains("line 30") && said.contains("line 11") && !said.contains("line 10\n"), "{said}");
    }

    #[tokio::test]
    async fn of_several_the_one_that_dies_is_told() {
        let mut processes = vec![start("a=sleep 600").unwrap(), start("b=sh -c 'exit 4'").unwrap()];
        let waiting = Process::all_during::<()>(&mut processes, std::future::pending()).await;
        let said = format!("{:#}", waiting.unwrap_err());
        assert!(said.contains("manager b ended (exit status: 4)"), "{said}");
    }

    #[tokio::test]
    async fn what_fails_because_one_has_died_is_not_told_in_its_place() {
        let mut processes = vec![start("a=sleep 600").unwrap(), start("b=sh -c 'exit 4'").unwrap()];
        let ended = processes[1].child.wait().await.unwrap();
        let waiting = Process::all_during::<()>(&mut processes, async { bail!("no /proc") }).await;
        let said = format!("{:#}", waiting.unwrap_err());
        assert!(said.contains(&format!("manager b ended ({ended})")), "{said}");
        let waiting = Process::all_during::<()>(&mut processes[..1], async { bail!("no /proc") }).await;
        assert_eq!(waiting.unwrap_err().to_string(), "no /proc");
    }

    #[tokio::test]
    async fn one_that_is_not_there_is_named() {
        let said = format!("{:#}", start("m=/nowhere/at/all --flag").err().unwrap());
        assert!(said.contains("--manager m") && said.contains("/nowhere/at/all"), "{said}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn one_that_sleeps_is_at_rest_and_ends_when_told() {
        let mut process = start("m=sleep 600").unwrap();
        let usage = process.at_rest(Duration::from_secs(60)).await.unwrap();
        assert!(usage.cpu_seconds < 1.0 && usage.resident_mib > 0.0, "{usage:?}");
        process.stop().await.unwrap();
    }
}
