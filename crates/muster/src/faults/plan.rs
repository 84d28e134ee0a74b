//! A file of faults: rules for requests, and what happens to the server at which time.
//!
//! ```yaml
//! faults:
//! - fault: {lag: 2s..5s}
//!   client: kube-controller-manager
//!   verbs: [watch]
//!   resources: [pods]
//! operations:
//! - {at: 30s, every: 1m, do: compact}
//! clock: {ahead: 90s}
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_runtime::yaml;
use muster_simulation::faults::{LONGEST, Rule};
use muster_simulation::text;
use serde::{Deserialize, Serialize};

use super::presets;

/// What a file says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Plan {
    /// What strikes requests. Times are counted from when the plan is taken up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<Rule>,
    /// What happens to the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) operations: Vec<Step>,
    /// How wrong the clock is that the header `Date` of answers tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<Wrong>,
}

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// When, since the plan was taken up.
    #[serde(with = "text::duration")]
    pub(crate) at: Duration,
    /// And again after each of these; once, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::optional_duration")]
    pub(crate) every: Option<Duration>,
    /// What.
    #[serde(rename = "do")]
    pub(crate) incident: Incident,
}

/// What happens to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Incident {
    /// It forgets its history: versions to resume from are too old.
    Compact,
    /// It notes its present version.
    Remember,
    /// It is put back to the version that it noted last.
    Restore,
    /// It goes away: connections break, requests are not answered.
    ServerAway,
    /// It is back.
    ServerBack,
}

/// By how much a clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wrong {
    /// It shows a later time.
    Ahead(#[serde(with = "text::duration")] Duration),
    /// It shows an earlier time.
    Behind(#[serde(with = "text::duration")] Duration),
}

impl Plan {
    /// The place of an operation that restores the server before a version is noted: by this plan, which is taken up at this time, or
    /// by one of the operations taken up before, whose times are counted from the start of the server.
    pub(super) fn restores_nothing(&self, before: &[Step], now: Duration) -> Option<usize> {
        let noted =
            |steps: &[Step]| steps.iter().filter(|step| step.incident == Incident::Remember).map(|step| step.at).min();
        let (own, earlier) = (noted(&self.operations), noted(before));
        let is_noted = |step: &Step| {
            own.is_some_and(|own| own < step.at) || earlier.is_some_and(|earlier| earlier < now.saturating_add(step.at))
        };
        self.operations.iter().position(|step| step.incident == Incident::Restore && !is_noted(step))
    }

    /// The preset of this name, or what this file says.
    ///
    /// # Errors
    /// Where there is neither, or a field is not what it should be.
    pub(crate) fn of(name: &str) -> Result<Self> {
        if let Some(preset) = presets::ALL.iter().find(|preset| preset.name == name) {
            return Self::read(preset.yaml).with_context(|| format!("the preset {name}"));
        }
        let text = std::fs::read_to_string(Path::new(name)).with_context(|| {
            let known: Vec<&str> = presets::ALL.iter().map(|preset| preset.name).collect();
            format!("{name}: expected a file, or a preset: {}", known.join(", "))
        })?;
        Self::read(&text).with_context(|| name.to_owned())
    }

    fn read(text: &str) -> Result<Self> {
        let plan: Self = yaml::read(text).map_err(|error| anyhow!(error))?;
        if plan == Self::default() {
            bail!("found nothing, expected faults, operations or clock");
        }
        plan.check()?;
        Ok(plan)
    }

    /// What the form of a field does not say.
    ///
    /// # Errors
    /// With the field, what was found and what was expected.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { faults, operations, clock } = self;
        for (at, rule) in faults.iter().enumerate() {
            rule.check().map_err(|said| anyhow!("faults[{at}].{said}"))?;
            if rule.per_mille == 0 {
                bail!("faults[{at}].perMille: found 0, expected 1 to 1000: it would never strike");
            }
        }
        for (at, step) in operations.iter().enumerate() {
            let every = step.every.unwrap_or(SHORTEST);
            for (field, found) in [("at", step.at), ("every", every)] {
                if found > LONGEST {
                    bail!("operations[{at}].{field}: found {}, expected at most a year", text::written(found));
                }
            }
            if every < SHORTEST {
                let (found, expected) = (text::written(every), text::written(SHORTEST));
                bail!("operations[{at}].every: found {found}, expected {expected} or more");
            }
        }
        if let Some(Wrong::Ahead(by) | Wrong::Behind(by)) = clock
            && *by > LONGEST
        {
            bail!("clock: found {}, expected at most a year", text::written(*by));
        }
        Ok(())
    }
}

/// What happens again and again leaves the server this much time.
const SHORTEST: Duration = Duration::from_millis(100);
