//! `muster rollout get`: a workload with its revisions, ReplicaSets and pods, as a tree, once or as it changes.
//!
//! ```text
//!   lists, watches of one namespace --> Objects --> Tree --> text, JSON
//! ```
//!
//! It reads and asks nobody but the API server, so that it works with whatever controller there is.

mod arguments;
mod model;
mod text;
mod watch;

use std::time::Duration;

use anyhow::{Result, anyhow};
use console::Term;
use muster_manager::arguments::{Output, client_options, say};
use muster_runtime::client::Client;

pub(crate) use arguments::{Arguments, RolloutCommand};
use model::{Objects, Tree};
use text::Look;
use watch::Live;

/// How often at most a tree is shown anew on a terminal, and in lines.
const SHOW_EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// Ages change without an event.
const TICK: Duration = Duration::from_secs(1);

/// Runs `muster rollout`.
///
/// # Errors
/// Where the workload cannot be read.
pub(crate) async fn run(command: &RolloutCommand) -> Result<()> {
    let RolloutCommand::Get(arguments) = command;
    let target = arguments.asked.target().map_err(|error| anyhow!("{error}"))?;
    let (config, namespace) = arguments.asked.cluster().await?;
    let client = Client::connect(&config, &client_options()).map_err(|error| anyhow!("{error}"))?;
    let mut live = Live::read(&client, target, &namespace).await?;
    let mut shown = Shown::new(arguments);
    shown.show(&live.tree())?;
    if !arguments.watch {
        return Ok(());
    }
    let every = SHOW_EVERY[usize::from(!shown.is_terminal())];
    loop {
        let changed = tokio::select! {
            changed = live.changed() => changed?,
            () = tokio::time::sleep(TICK), if shown.is_terminal() => true,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        if !changed {
            continue;
        }
        // What comes within a moment is shown together.
        let together = tokio::time::sleep(every);
        tokio::pin!(together);
        loop {
            tokio::select! {
                changed = live.changed() => drop(changed?),
                () = &mut together => break,
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
        shown.show(&live.tree())?;
    }
}

/// What is on the terminal.
struct Shown {
    term: Term,
    output: Output,
    pods: usize,
    watch: bool,
    /// How many lines of the last tree are above the cursor.
    lines: usize,
    last: Option<Tree>,
}

impl Shown {
    fn new(arguments: &Arguments) -> Self {
        let Arguments { output, pods, watch, .. } = arguments;
        Self { term: Term::stdout(), output: *output, pods: *pods, watch: *watch, lines: 0, last: None }
    }

    fn is_terminal(&self) -> bool {
        self.output == Output::Text && self.term.is_term()
    }

    /// Shows a tree in the place of the last one, or after it where there is no terminal, unless it is the same.
    fn show(&mut self, tree: &Tree) -> Result<()> {
        let same = self.last.as_ref().is_some_and(|last| Tree { at: last.at.clone(), ..tree.clone() } == *last);
        if same {
            return Ok(());
        }
        match self.output {
            Output::Json if self.watch => say(&format!("{}\n", serde_json::to_string(tree)?))?,
            Output::Json => say(&format!("{}\n", serde_json::to_string_pretty(tree)?))?,
            Output::Text => self.draw(tree)?,
        }
        self.last = Some(tree.clone());
        Ok(())
    }

    fn draw(&mut self, tree: &Tree) -> Result<()> {
        if !self.is_terminal() {
            let between = if self.last.is_some() { "\n" } else { "" };
            let look = Look { colours: false, pods: self.pods, width: None };
            return say(&format!("{between}{}", text::show(tree, look)));
        }
        let (rows, columns) = self.term.size();
        let look = Look { colours: console::colors_enabled(), pods: self.pods, width: Some(usize::from(columns)) };
        let mut shown = text::show(tree, look);
        if self.watch {
            // What does not fit could not be taken back.
            let fits = usize::from(rows).saturating_sub(1);
            shown = shown.lines().take(fits).map(|line| format!("{line}\n")).collect();
            self.term.clear_last_lines(self.lines)?;
            self.lines = shown.lines().count();
        }
        Ok(self.term.write_str(&shown)?)
    }
}
