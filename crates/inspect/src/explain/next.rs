//! Next sync: what a sync would do now, why, and when the key would be synced again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::memory::seconds;
use muster_controllers::plan::{ClaimAction, ClaimPlan, Expectation, Plan, Remark, Requeue, Step};

/// What a sync would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextSync {
    /// In a few words, such as `delete 2 pods`.
    pub summary: String,
    /// Why this and no more, the first reason first.
    pub why: Vec<Reason>,
    /// The writes in their order: claims first, the rest as planned if those succeed.
    pub writes: Vec<Write>,
    /// The expectations that the writes would set (EX-01).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<Expects>,
    /// Remarks, such as that a name is not the one that upstream would choose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The status that would be written if every write succeeds; `None` if it is up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Changes>,
    /// When it would be synced again if nothing changed.
    pub again: Again,
}

/// Why something is done or not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The row of the contract, such as `DEP-10`.
    pub rule: String,
    /// The rule applied to this object.
    pub text: String,
}

impl Reason {
    pub(crate) fn new(rule: &str, text: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), text: text.into() }
    }
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// `adopt`, `release`, `create`, `delete`, `patch`; `tell` for an Event without a write, `fail` for a failure
    /// before any write.
    pub action: String,
    /// The kind of the object; empty for the last two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name; `None` if the server generates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many such writes.
    pub count: u32,
    /// What a patch changes, or the message of an Event or a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// The expectations after the writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expects {
    /// How many creations.
    pub creations: u32,
    /// The names of the objects to be deleted.
    #[serde(default)]
    pub deletions: Vec<String>,
}

/// A patch of the status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The value of `status` in a strategic merge patch.
    pub patch: serde_json::Value,
    /// The annotations that are written with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// When the key would be synced again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Again {
    /// When something changes.
    OnChange,
    /// After this many seconds.
    AfterSeconds(f64),
    /// After the queue's backoff.
    Backoff,
}

impl NextSync {
    /// The sync that these plans describe.
    pub(super) fn of(claims: &ClaimPlan, plan: &Plan, summary: String, why: Vec<Reason>) -> Self {
        Self {
            summary,
            why,
            writes: writes(claims, plan),
            expects: Expects::of(plan),
            // The other remarks are among the reasons, or only feed metrics.
            remarks: plan.remarks.iter().filter(|it| **it == Remark::InexactHash).map(ToString::to_string).collect(),
            status: plan
                .status
                .as_ref()
                .map(|status| Changes { patch: status.status.clone(), annotations: status.annotations.clone() }),
            again: match plan.requeue {
                Requeue::None => Again::OnChange,
                Requeue::After(delay) => Again::AfterSeconds(seconds(delay)),
                Requeue::RateLimited { .. } => Again::Backoff,
            },
        }
    }
}

impl Expects {
    /// What a plan's writes are to show.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        plan.expectation.as_ref().map(|expectation| match expectation {
            Expectation::Creations(count) => Self { creations: *count, deletions: Vec::new() },
            Expectation::Deletions(keys) => {
                Self { creations: 0, deletions: keys.iter().map(|key| key.name.to_string()).collect() }
            }
        })
    }
}

fn writes(claims: &ClaimPlan, plan: &Plan) -> Vec<Write> {
    let one = |action: &str, kind: &str, name: Option<&str>, purpose: Option<String>| Write {
        action: action.to_owned(),
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
        count: 1,
        purpose,
    };
    let mut writes = Vec::new();
    for patch in &claims.patches {
        let action = match patch.action {
            ClaimAction::Adopt => "adopt",
            ClaimAction::Release => "release",
        };
        writes.push(one(action, patch.resource.kind, Some(&patch.key.name), None));
    }
    for step in &plan.steps {
        match step {
            Step::Create(creation) => {
                let create = one("create", creation.resource.kind, creation.name.as_deref(), None);
                writes.push(Write { count: creation.count, ..create });
            }
            Step::Delete(deletions) => {
                writes.extend(deletions.iter().map(|it| one("delete", it.resource.kind, Some(&it.key.name), None)));
            }
            Step::Patch(patches) => {
                let patch = |it: &muster_controllers::plan::Patch| {
                    one("patch", it.resource.kind, Some(&it.key.name), Some(it.purpose.clone()))
                };
                writes.extend(patches.iter().map(patch));
            }
            Step::Tell(told) => {
                writes.push(one("tell", "", None, Some(format!("{}: {}", told.reason, told.message))));
            }
            Step::Fail(failure) => writes.push(one("fail", "", None, Some(failure.to_string()))),
        }
    }
    writes
}
