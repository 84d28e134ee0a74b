//! The agreement log as it is read.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_inspect::shadow::Totals;
use muster_inspect::shadow::record::Difference;
use muster_inspect::shadow::record::VERSION;
use muster_inspect::shadow::{Line, Record};
use muster_objects::Timestamp;
use serde::Deserialize;

/// What logs tell.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The counts of all of them.
    pub(crate) totals: Totals,
    /// From the first line to the last; none where there are no lines.
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
    /// How many states had a plan of their own.
    pub(crate) plans: u64,
    /// Each difference that no row explains, with its time.
    pub(crate) unexplained: Vec<(Timestamp, Difference)>,
    /// Where a line is cut: it is still being written, or the process ended as it was.
    pub(crate) cut: Vec<String>,
    /// Whether one of these, behind which others come, may have been a difference that no row explains.
    pub(crate) is_doubtful: bool,
}

/// The version of a line, read before anything else of it.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Found {
    /// Takes in a log; `-` is standard input.
    ///
    /// # Errors
    /// Where it cannot be read, or a line of it cannot be understood.
    pub(crate) fn read(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        if name == "-" {
            return self.take("standard input", io::stdin().lock());
        }
        let file = File::open(path).with_context(|| name.clone())?;
        self.take(&name, BufReader::new(file))
    }

    pub(crate) fn take(&mut self, name: &str, mut log: impl BufRead) -> Result<()> {
        let mut text = Vec::new();
        // A process that was started anew begins its counts again; those before are not lost.
        let mut objects = Totals::default();
        for number in 1.. {
            text.clear();
            let length = log.read_until(b'\n', &mut text).with_context(|| format!("{name}, line {number}"))?;
            if length == 0 {
                break;
            }
            let is_whole = text.ends_with(b"\n");
            match parse(&text) {
                Ok(Some(line)) => {
                    if let Record::Summary(totals) = &line.record {
                        objects.objects.clone_from(&totals.objects);
                    }
                    self.add(line);
                }
                Ok(None) => {}
                Err(error) if !is_whole || is_cut(&error) => {
                    self.is_doubtful |= is_whole && may_be_difference(&text);
                    self.cut.push(format!("{name}, line {number}"));
                }
                Err(error) => bail!("{name}, line {number}: {error:#}"),
            }
        }
        for (kind, count) in objects.objects {
            *self.totals.objects.entry(kind).or_default() += count;
        }
        Ok(())
    }

    fn add(&mut self, line: Line) {
        let time = line.time.0;
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
        self.totals.add(&line.record);
        match line.record {
            Record::Plan(_) => self.plans += 1,
            Record::Difference(difference) if difference.row.is_none() => self.unexplained.push((time, difference)),
            _ => {}
        }
    }
}

/// Whether a line was a record as far as it goes.
fn is_cut(error: &anyhow::Error) -> bool {
    error.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_eof)
}

/// Whether a line that is cut may have been a record of a difference.
fn may_be_difference(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((_, kind)) = text.split_once("\"record\":\"") else { return true };
    match kind.trim_end().split_once('"') {
        Some((kind, _)) => kind == "difference",
        None => "difference".starts_with(kind.trim_end()),
    }
}

/// A line; none where it is empty.
fn parse(text: &[u8]) -> Result<Option<Line>> {
    // After a loss of power a file may end with zeroes that nobody wrote.
    let text = text.trim_ascii_end();
    let written = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = text[..written].trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let what = "expected a record of the agreement log, a JSON object with version, time and record";
    let Versioned { version } = serde_json::from_slice(text).with_context(|| what)?;
    if version != VERSION {
        return Err(anyhow!("version {version} of the agreement log: expected {VERSION}"));
    }
    serde_json::from_slice(text).with_context(|| what).map(Some)
}
