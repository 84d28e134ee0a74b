//! What is shown while histories are played or a case is made smaller.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A bar on a terminal, a line now and then elsewhere.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// How much there is to do; none where it is for as long as there is time.
    all: Option<u64>,
    last: Instant,
}

impl Progress {
    pub(super) fn new(all: u64) -> Self {
        let all = Some(all).filter(|all| *all < u64::MAX / 2);
        let bar = io::stderr().is_terminal().then(|| {
            let (bar, style) = match all {
                Some(all) => (ProgressBar::new(all), "{bar:30} {pos}/{len} {msg} (about {eta} more)"),
                None => (ProgressBar::no_length(), "{spinner} {pos} {msg} ({elapsed})"),
            };
            bar.with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, all, last: Instant::now() }
    }

    pub(super) fn show(&mut self, done: u64, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(what.to_owned());
        } else if self.last.elapsed() >= LINE_EVERY {
            self.last = Instant::now();
            let of = self.all.map(|all| format!(" of {all}:")).unwrap_or_default();
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "{done}{of} {what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
