//! `muster simulate --small-worlds`: every state of small worlds, and whether a law is broken in one.

use anyhow::Result;
use muster_manager::arguments::{Output, say};
use muster_simulation::small::{Enumerated, World, enumerate};
use serde::Serialize;

use super::{Progress, Simulate, interrupted};

/// What one world comes to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    world: String,
    states: usize,
    transitions: usize,
    /// How many steps it takes to the state that takes most.
    deepest: usize,
    /// Whether these are all states.
    all: bool,
    broken: Option<String>,
    story: Option<String>,
}

/// Enumerates the worlds, and prints a line of each. Whether no law was broken.
pub(super) fn run(arguments: &Simulate) -> Result<bool> {
    let (mut rows, mut holds) = (Vec::new(), true);
    let is_text = matches!(arguments.output, Output::Text);
    if is_text {
        say(&format!("{:<55}{:>12}{:>13}{:>9}  BROKEN\n", "WORLD", "STATES", "TRANSITIONS", "DEEPEST"))?;
    }
    for world in World::all(usize::try_from(arguments.stale).unwrap_or(usize::MAX)) {
        let named = world.to_string();
        let mut progress = Progress::new(arguments.most_states);
        let most = usize::try_from(arguments.most_states).unwrap_or(usize::MAX);
        let found = enumerate(&world, most, &mut |states| {
            progress.show(states as u64, &named);
            interrupted().is_none()
        });
        drop(progress);
        holds &= found.broken.is_none();
        let row = Row::of(named, found);
        if is_text {
            say(&row.told())?;
        }
        rows.push(row);
        if interrupted().is_some() {
            break;
        }
    }
    if !is_text {
        say(&(serde_json::to_string(&rows)? + "\n"))?;
    }
    Ok(holds)
}

impl Row {
    fn of(world: String, found: Enumerated) -> Self {
        let Enumerated { states, transitions, deepest, is_all, broken, .. } = found;
        let (broken, story) = broken.map(|(broken, story)| (broken.to_string(), story)).unzip();
        Self { world, states, transitions, deepest, all: is_all, broken, story }
    }

    fn told(&self) -> String {
        let Self { world, states, transitions, deepest, all, broken, story } = self;
        let said = match broken {
            Some(broken) => broken,
            None if *all => "none",
            None => "none, but there are more states",
        };
        let story = story.as_ref().map(|story| format!("\n{story}\n")).unwrap_or_default();
        format!("{world:<55}{states:>12}{transitions:>13}{deepest:>9}  {said}\n{story}")
    }
}
