//! What a sync that runs did, and by which rules: asked of the sync itself, which has decided.

use std::borrow::Cow;

use muster_controllers::deployment::DeploymentSync;
use muster_controllers::plan::{ClaimPlan, Plan, Resource, SyncSteps};
use muster_controllers::replicaset::decide::claimed_pods;
use muster_controllers::replicaset::{Expected, ReplicaOwner, ReplicaSync};
use muster_machinery::Remedy;
use muster_objects::meta::{ResourceVersion, Uid};
use muster_objects::{SelectorError, Timestamp};

use super::On;
use crate::explain::{Expects, Reason, replica_reasons, rollout_account, short};

/// What a sync found and did.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// In a few words.
    pub summary: Cow<'static, str>,
    /// By which rules.
    pub why: Vec<Reason>,
    /// What its writes are to show.
    pub expects: Option<Expects>,
    /// What it waits for before it does more; a later sync says for how long.
    pub blocked: Option<On<'static>>,
    /// The object's uid, where the sync saw the object.
    pub uid: Option<Uid>,
}

impl Account {
    fn of(summary: impl Into<Cow<'static, str>>, why: Vec<Reason>) -> Self {
        Self { summary: summary.into(), why, expects: None, blocked: None, uid: None }
    }

    /// A sync of an object that is gone.
    #[must_use]
    pub fn gone() -> Self {
        Self::of("nothing: it is gone", vec![Reason::new("EX-06", "what was remembered of it is dropped")])
    }

    /// A sync that was deferred, because a cache is behind what was written (RS-19).
    #[must_use]
    pub fn behind(resource: Resource, wrote: ResourceVersion, read: ResourceVersion, remedy: Remedy) -> Self {
        let text = format!("the cache of {resource} is at {read}, {wrote} was written");
        let how = match remedy {
            Remedy::Woken => "wait for the cache",
            Remedy::Retry => "retry by the queue's rate limit",
        };
        let (ResourceVersion(wrote), ResourceVersion(read)) = (wrote, read);
        let blocked = On::Cache { kind: resource.kind.into(), wrote, read };
        Self { blocked: Some(blocked), ..Self::of(how, vec![Reason::new("RS-19", text)]) }
    }

    /// A sync that ended at once, because the selector cannot be parsed (RS-20).
    #[must_use]
    pub fn unselecting(error: &SelectorError) -> Self {
        let why = Reason::new("RS-20", format!("its selector cannot be parsed: {error}"));
        Self::of("nothing, until it changes", vec![why])
    }

    /// Claims that are settled before anything is counted.
    #[must_use]
    pub fn claiming(claims: &ClaimPlan) -> Self {
        let plural = if claims.patches.len() == 1 { "" } else { "s" };
        let why = Reason::new("RS-06", "what the selector matches is adopted, what it matches no more is released");
        Self::of(format!("settle {} claim{plural}", claims.patches.len()), vec![why])
    }
}

/// A sync that can be asked for an account once it has decided.
pub trait Accountable: SyncSteps {
    /// What it found and does. `plan` is what it performs; `None` if it leaves everything as it is.
    fn account(&self, plan: Option<&Plan>, now: Timestamp) -> Account;
}

impl<O: ReplicaOwner> Accountable for ReplicaSync<O> {
    fn account(&self, plan: Option<&Plan>, _: Timestamp) -> Account {
        let (snapshot, claims) = self.seen();
        let Some(plan) = plan else {
            // Mostly said without counting the pods again: that nothing is done says how many there are.
            let memory = &snapshot.memory;
            let wanted = snapshot.owner.replicas();
            let is_missing = || claimed_pods(snapshot, claims).len() < usize::try_from(wanted).unwrap_or_default();
            let account = match (memory.expected, memory.creations_wait) {
                (Expected::Pending { expires_in }, _) => {
                    let text = format!("events of the last round are still to come; given up in {}", short(expires_in));
                    let why = vec![Reason::new("EX-07", text)];
                    Account { blocked: Some(On::Expectations), ..Account::of("leave the pods as they are", why) }
                }
                _ if snapshot.owner.meta().is_being_deleted() => {
                    Account::of("leave the pods as they are", vec![Reason::new("RS-14", "it is being deleted")])
                }
                // Whoever is to make no pod waits for nothing.
                (Expected::Settled, Some(wait)) if is_missing() => {
                    let text = format!("the last pods came to nothing at once: creations wait {}", short(wait));
                    let why = vec![Reason::new("B-08", text)];
                    Account { blocked: Some(On::Creations), ..Account::of("leave the pods as they are", why) }
                }
                (Expected::Settled, _) => {
                    let text = format!("all {wanted} wanted pods are there");
                    Account::of("leave the pods as they are", vec![Reason::new("RS-09", text)])
                }
            };
            return Account { uid: Some(self.owner().uid.clone()), ..account };
        };
        let (summary, why) = replica_reasons(snapshot, claims, plan);
        Account { expects: Expects::of(plan), uid: Some(self.owner().uid.clone()), ..Account::of(summary, why) }
    }
}

impl Accountable for DeploymentSync {
    fn account(&self, _: Option<&Plan>, now: Timestamp) -> Account {
        let (snapshot, decision) = self.seen();
        let Some(decision) = decision else { return Account::of("nothing", Vec::new()) };
        let (summary, why) = rollout_account(snapshot, decision, now);
        Account { uid: Some(self.owner().uid.clone()), ..Account::of(summary, why) }
    }
}
