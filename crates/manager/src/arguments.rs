//! What the arguments of several commands have in common.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use muster_runtime::client::Options;
use muster_runtime::duration::parse_duration;
use muster_runtime::manager::CONCURRENT_SYNCS;

/// How many objects each controller works on at once, by the flags of kube-controller-manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Concurrency {
    /// How many Deployments are synced at once
    #[arg(
        long = "concurrent-deployment-syncs",
        value_name = "N",
        default_value_t = CONCURRENT_SYNCS,
        value_parser = parse_count
    )]
    pub deployments: NonZeroUsize,

    /// How many ReplicaSets are synced at once
    #[arg(
        long = "concurrent-replicaset-syncs",
        value_name = "N",
        default_value_t = CONCURRENT_SYNCS,
        value_parser = parse_count
    )]
    pub replicasets: NonZeroUsize,

    /// How many ReplicationControllers are synced at once
    #[arg(
        long = "concurrent-rc-syncs",
        alias = "concurrent_rc_syncs",
        value_name = "N",
        default_value_t = CONCURRENT_SYNCS,
        value_parser = parse_count
    )]
    pub replicationcontrollers: NonZeroUsize,
}

/// So many at once are more than any cluster has a use for: each is a task.
const MOST_SYNCS: usize = 10_000;

/// A number of something that there must be one of at least.
fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MOST_SYNCS);
    count.ok_or_else(|| format!("expected a whole number, 1 to {MOST_SYNCS}"))
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { deployments: CONCURRENT_SYNCS, replicasets: CONCURRENT_SYNCS, replicationcontrollers: CONCURRENT_SYNCS }
    }
}

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs: JSON
    Json,
}

/// How a command's client is set up: it says what it waits for where the server does not answer.
#[must_use]
pub fn client_options() -> Options {
    Options { silence: Some(|server| eprintln!("waiting for {server} to answer")), ..Options::default() }
}

/// A duration that is longer than none.
///
/// # Errors
/// Where the text is something else.
pub(crate) fn parse_some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(time) if time.is_zero() => Err("expected a duration longer than 0, such as 10m".to_owned()),
        read => read.map_err(|error| error.to_string()),
    }
}

/// Text on standard output. Whoever reads it may be gone.
pub fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output"),
    }
}

/// Text that others wrote, as it may be shown on a terminal: what would tell the terminal to do something is written out, but
/// for the ends of lines and tabs.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let written = |c: char| if commands(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(written).collect())
}

/// The same as part of one line, which an end of a line among it does not end.
#[must_use]
pub fn in_line(text: &str) -> String {
    visible(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::{in_line, visible};

    #[test]
    fn what_others_wrote_tells_a_terminal_nothing() {
        for (written, shown) in [
            ("web: 3 of 5\n\tready – ┌─\n", "web: 3 of 5\n\tready – ┌─\n"),
            ("a\u{1b}]52;c;aGk=\u{7}b", "a\\u{1b}]52;c;aGk=\\u{7}b"),
            ("over\rwritten\u{9b}2J", "over\\rwritten\\u{9b}2J"),
        ] {
            assert_eq!(visible(written), shown);
        }
        assert_eq!(in_line("3 of 5\nready\u{7}"), "3 of 5 ready\\u{7}");
    }
}
