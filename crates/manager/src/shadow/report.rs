//! `muster shadow report`: what an agreement log comes to.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use muster_inspect::shadow::record::Difference;
use muster_inspect::shadow::totals::Counts;
use muster_objects::Timestamp;
use serde_json::{Value, json};

use super::read::Found;
use crate::arguments::{Output, say, visible};
use crate::program::words;

const EXAMPLES: &str = "\
Examples:
  # What the shadow has seen so far, while it runs
  muster shadow report agreement.jsonl

  # Several logs as one, for a script: exit 0 where nothing is unexplained
  muster shadow report --output json monday.jsonl tuesday.jsonl

  # Straight from the shadow
  timeout 1h muster controller-manager --shadow | muster shadow report -

It exits 0 where every difference is a row of the contract, 1 where one is not, or may have been cut, and 2 where a log cannot be read or there is \
no record in them.";

/// What `muster shadow report` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// The logs that `controller-manager --shadow-log` wrote; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Reads the logs and prints what they come to.
pub(crate) fn run(arguments: &Report) -> ExitCode {
    match report(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {}", words(&error));
            ExitCode::from(2)
        }
    }
}

/// Whether nothing is unexplained.
fn report(arguments: &Report) -> Result<bool> {
    let mut found = Found::default();
    for file in &arguments.files {
        found.read(file)?;
    }
    if found.first.is_none() {
        let files: Vec<String> = arguments.files.iter().map(|file| file.display().to_string()).collect();
        bail!("{}: found no record, expected the lines of --shadow-log", files.join(", "));
    }
    let told = match arguments.output {
        Output::Text => text(&found),
        Output::Json => format!("{:#}\n", as_json(&found)),
    };
    say(&visible(&told))?;
    Ok(found.unexplained.is_empty() && !found.is_doubtful)
}

fn text(found: &Found) -> String {
    let mut out = String::new();
    for line in &found.cut {
        let _ = writeln!(out, "note: {line} is cut: it is still being written, or the process ended as it was");
    }
    if let (Some(first), Some(last)) = (found.first, found.last) {
        let _ = writeln!(out, "from {first} to {last} ({} s)", last.saturating_since(first).as_secs());
    }
    let objects: Vec<String> = found.totals.objects.iter().map(|(kind, count)| format!("{count} {kind}s")).collect();
    if !objects.is_empty() {
        let _ = writeln!(out, "watched {}", objects.join(", "));
    }
    let _ = writeln!(out, "{} plans\n", found.plans);
    let heads = ["KIND", "ACTION", "AGREED", "BY ROW", "UNEXPLAINED", "NOT JUDGED"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (kind, actions) in &found.totals.kinds {
        rows.extend(actions.iter().map(|(action, counts)| row(kind, action, counts)));
    }
    rows.push(row("all", "", &found.totals.total()));
    out.push_str(&table(&rows));
    if found.unexplained.is_empty() {
        out.push_str(match found.is_doubtful {
            true => "\nnothing unexplained, but what was cut may have been\n",
            false => "\nnothing unexplained\n",
        });
    }
    for (time, difference) in &found.unexplained {
        out.push_str(&side_by_side(*time, difference));
    }
    out
}

fn row(kind: &str, action: &str, counts: &Counts) -> Vec<String> {
    let by_row: Vec<String> = counts.by_row.iter().map(|(row, count)| format!("{row}:{count}")).collect();
    let by_row = if by_row.is_empty() { "0".to_owned() } else { by_row.join(" ") };
    let (agreed, unexplained, others) = (counts.agreed, counts.unexplained, counts.others);
    vec![kind.to_owned(), action.to_owned(), agreed.to_string(), by_row, unexplained.to_string(), others.to_string()]
}

fn table(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn side_by_side(time: Timestamp, difference: &Difference) -> String {
    let Difference { subject, action, would, did, why, .. } = difference;
    format!(
        "\n{} {}/{} (uid {}, version {}) at {}: {action}\n  we would   {would}\n  it did     {did}\n  because    {why}\n",
        subject.kind,
        subject.namespace,
        subject.name,
        subject.uid,
        subject.resource_version,
        time.micro(),
    )
}

fn as_json(found: &Found) -> Value {
    let unexplained: Vec<Value> = found
        .unexplained
        .iter()
        .map(|(time, difference)| {
            let mut value = json!(difference);
            value["time"] = json!(time.micro());
            value
        })
        .collect();
    json!({
        "from": found.first.map(Timestamp::micro),
        "to": found.last.map(Timestamp::micro),
        "cut": found.cut,
        "plans": found.plans,
        "objects": found.totals.objects,
        "kinds": found.totals.kinds,
        "total": found.totals.total(),
        "unexplained": unexplained,
    })
}
