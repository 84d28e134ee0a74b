//! Logs by the flags of Kubernetes' components: `--logging-format` and `-v`.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(verbosity)));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        Format::Text => log.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
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
    use super::*;

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
