//! A sync while it runs.

use std::time::Duration;

use muster_controllers::plan::Failure;
use muster_objects::meta::ResourceVersion;
use muster_objects::{Moment, Timestamp};

use super::account::Account;
use super::{Answer, Cause, Request, Saw, Sync, Wait};
use crate::explain::Again;

/// How many requests of one sync are told.
const MOST_REQUESTS: usize = 1_000;

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// Such as `create`; see [`Request::action`].
    pub action: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name.
    pub name: &'a str,
    /// How long the answer took.
    pub took: Duration,
    /// The version that there is now, or why there is none.
    pub answer: Result<Option<ResourceVersion>, &'a Failure>,
}

/// What is known of a sync so far.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) sync: Sync<'static>,
    pub(super) began: Moment,
}

impl Flight {
    pub(super) fn new(at: Timestamp, began: Moment, saw: Vec<Saw<'static>>) -> Self {
        let sync = Sync {
            at,
            until: at,
            count: 1,
            took: Duration::ZERO,
            woken: Vec::new(),
            more: 0,
            waits: Vec::new(),
            saw,
            summary: "".into(),
            why: Vec::new(),
            expects: None,
            writes: Vec::new(),
            more_writes: 0,
            status: None,
            error: None,
            again: Again::OnChange,
            uid: None,
        };
        Self { sync, began }
    }

    pub(super) fn woken_by(&mut self, woken: Vec<Cause<'static>>, more: u32, waits: Vec<Wait<'static>>) {
        (self.sync.woken, self.sync.more, self.sync.waits) = (woken, more, waits);
    }

    /// Adds what a round found: claims come first, and the rest after them.
    pub(super) fn found(&mut self, account: Account) {
        let Account { summary, why, expects, blocked: _, uid } = account;
        let sync = &mut self.sync;
        let first = std::mem::take(&mut sync.summary);
        sync.summary = if first.is_empty() { summary } else { format!("{first}, then {summary}").into() };
        sync.why.extend(why);
        sync.expects = expects.or(sync.expects.take());
        sync.uid = uid.map(|uid| uid.to_string().into()).or(sync.uid.take());
    }

    pub(super) fn answered(&mut self, answered: Answered<'_>, now: Moment) {
        if self.sync.writes.len() >= MOST_REQUESTS {
            self.sync.more_writes += 1;
            return;
        }
        let Answered { action, kind, name, took, answer } = answered;
        let answer = match answer {
            Ok(version) => Answer::Ok { version: version.map(|ResourceVersion(version)| version) },
            Err(Failure { code, reason, message, .. }) => {
                Answer::Failed { code: *code, reason: reason.clone().into(), message: message.clone().into() }
            }
        };
        let after = now.saturating_since(self.began);
        let (name, kind, action) = (name.to_owned().into(), kind.into(), action.into());
        self.sync.writes.push(Request { action, kind, name, after, took, answer });
    }

    /// Whether nothing was asked of the server, and nothing failed.
    pub(super) fn is_quiet(&self) -> bool {
        self.sync.writes.is_empty() && self.sync.error.is_none()
    }
}
