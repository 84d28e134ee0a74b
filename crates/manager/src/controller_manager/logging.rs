//! Logs by the flags of Kubernetes' components: `--logging-format` and `-v`.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

use crate::arguments::in_line;

/// The forms of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line for each event, for people
    Text,
    /// One JSON object for each event
    Json,
}

/// Logs to standard error from here on. `RUST_LOG` overrides the verbosity.
pub(crate) fn start(format: Format, verbosity: u8) {
    // A log that cannot be written must not end who writes it.
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_env_filter(filter(directives(verbosity))).with_writer(io::stderr);
    match format {
        Format::Text => log.fmt_fields(fields()).with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
}

/// What `RUST_LOG` says, or where it says nothing of use these directives.
pub(crate) fn filter(otherwise: &str) -> EnvFilter {
    let said = std::env::var("RUST_LOG").ok().filter(|said| !said.trim().is_empty());
    said.and_then(|said| EnvFilter::try_new(said).ok()).unwrap_or_else(|| EnvFilter::new(otherwise))
}

/// How the fields of an event are written in a log for people: what others wrote among them stays in its line, and tells a
/// terminal nothing.
pub(crate) fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let said = in_line(&format!("{value:?}"));
        match field.name() {
            "message" => write!(writer, "{said}"),
            name => write!(writer, "{name}={said}"),
        }
    })
    .delimited(" ")
}

/// What is logged at a verbosity: what happens from 0 on, requests and rounds from 4 on, everything of ours from 6
/// on, and what the libraries say from 8 on.
fn directives(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,muster=info",
        4..=5 => "warn,muster=debug",
        6..=7 => "warn,muster=trace",
        8.. => "debug,muster=trace",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_others_wrote_stays_in_its_line_and_tells_a_terminal_nothing() {
        let out = Out::default();
        let writer = out.clone();
        let log = tracing_subscriber::fmt().fmt_fields(fields()).with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish(), || {
            tracing::warn!(error = %"denied: \u{1b}]0;pwned\u{7}\nforged", count = 3, key = "a/b", "sync failed");
        });
        let said = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let line = "sync failed error=denied: \\u{1b}]0;pwned\\u{7} forged count=3 key=\"a/b\"\n";
        assert!(said.ends_with(line) && said.lines().count() == 1, "{said}");
    }

    #[test]
    fn verbosity_only_ever_adds() {
        let levels: Vec<&str> = (0..10).map(directives).collect();
        assert_eq!(levels[0], levels[3]);
        for (verbosity, directives) in levels.iter().enumerate() {
            assert!(directives.parse::<EnvFilter>().is_ok(), "-v {verbosity}");
        }
        assert!(levels[4].contains("muster=debug") && levels[6].contains("muster=trace"));
        assert!(levels[8].starts_with("debug"));
    }
}
