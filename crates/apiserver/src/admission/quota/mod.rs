//! ResourceQuota: nothing is stored that would have its namespace use more than a quota allows (API-21).
//!
//! ```text
//!   hold:    quotas that limit what is written --> delta + what is used <= hard?  no: 403
//!               | yes: nobody else is let in                   ^
//!   commit      |                                           ledger: sums of what is stored
//!   settle:     +--> status.used of these quotas = what is used now
//! ```
//!
//! The reference charges `status.used` and has a controller put it right later. Here what is used is summed up of what
//! is stored, from before the check until the write is stored, so that no quota is ever exceeded, and a write that fails
//! costs nothing. `status.hard`, and what becomes free, are the work of the quota controller.

mod ledger;

use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_tree::Text;

use super::plugins::Plugin;
use super::{name_of, stored};
use crate::admission::{Admission, at_once};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part, ResourceList};
use crate::quota::{Evaluator, Scope, is_terminating, scopes, unspecified};
use crate::registry::options::WriteOptions;
use crate::registry::update::Update;
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use ledger::Ledgers;

/// What is used, for those who hold it.
#[derive(Debug, Default)]
pub struct Usage(Mutex<Ledgers>);

/// What a write may use, while nobody else can use it.
#[derive(Debug)]
pub struct Held<'r> {
    ledgers: MutexGuard<'r, Ledgers>,
    evaluator: Evaluator,
    quotas: Vec<Quota>,
}

/// A quota that limits what is written.
#[derive(Debug)]
struct Quota {
    name: String,
    scopes: Vec<Scope>,
    /// What it limits of what the evaluator measures.
    hard: ResourceList,
}

/// Holds what a write will use, where quotas limit that, until the answer is dropped or settled.
///
/// # Errors
/// 403 when a quota does not allow it.
pub fn hold<'r>(
    registry: &'r Registry,
    served: &Served,
    part: Part,
    object: &Object,
    old: Option<&Object>,
) -> Result<Option<Held<'r>>, ApiError> {
    let namespace = metadata(object).text("namespace");
    if namespace.is_empty() || !registry.settings.plugins.run(Plugin::ResourceQuota) {
        return Ok(None);
    }
    let (group, plural) = super::kind(served);
    let none = registry.find("", "v1", "resourcequotas").is_none_or(|quotas| registry.storage.count(quotas.id) == 0);
    let evaluator = if none { None } else { Evaluator::of(group, plural) };
    let Some(evaluator) = evaluator.filter(|one| handles(one, part, object, old)) else { return Ok(None) };
    let found = stored(registry, "", "resourcequotas", namespace, "");
    let forbidden = |why: String| ApiError::forbidden(served.group_resource(), name_of(object), &why);

    let limits = found.iter().map(|quota| Quota::read(quota, &evaluator));
    let quotas: Vec<Quota> =
        limits.filter(|quota| !quota.hard.is_empty() && evaluator.is_in(&quota.scopes, object)).collect();
    for quota in &quotas {
        if let Some(missing) = (evaluator == Evaluator::Pods).then(|| unspecified(&quota.hard, object)).flatten() {
            return Err(forbidden(format!("failed quota: {}: must specify {missing}", quota.name)));
        }
    }
    let now = registry.clock.now();
    let usage = evaluator.usage(object, now);
    let negative: Vec<&str> = usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        return Err(forbidden(format!("quota usage is negative for resource(s): {}", negative.join(","))));
    }
    let mut delta = usage.clone();
    if let Some(old) = old {
        delta.subtract(&evaluator.usage(old, now));
    }

    let mut ledgers = registry.usage.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut held = Vec::new();
    for quota in quotas {
        let within = old.is_some_and(|old| evaluator.is_in(&quota.scopes, old));
        let asked = limited(if within { &delta } else { &usage }, &quota.hard);
        if asked.is_empty() {
            continue;
        }
        let used = ledgers.used(registry, served, namespace, &evaluator, &quota.scopes);
        if part != Part::Status {
            quota.check(&asked, &used).map_err(forbidden)?;
        }
        held.push(quota);
    }
    Ok((!held.is_empty()).then_some(Held { ledgers, evaluator, quotas: held }))
}

/// Whether a write can use more than before.
fn handles(evaluator: &Evaluator, part: Part, object: &Object, old: Option<&Object>) -> bool {
    match (evaluator, part, old) {
        (_, Part::Main, None) | (Evaluator::Pods, Part::Resize, Some(_)) => true,
        (Evaluator::Pods, Part::Main, Some(old)) => is_terminating(old) != is_terminating(object),
        (Evaluator::Services, Part::Main, Some(_)) => true,
        (Evaluator::Claims, Part::Main | Part::Status, Some(_)) => true,
        _ => false,
    }
}

/// What there is of what is limited.
fn limited(amounts: &ResourceList, hard: &ResourceList) -> ResourceList {
    let some = amounts.iter().filter(|(name, amount)| amount.is_positive() && hard.get(name).is_some());
    some.map(|(name, amount)| (name.to_owned(), amount.clone())).collect()
}

impl Quota {
    fn read(quota: &Object, evaluator: &Evaluator) -> Self {
        let spec = quota.part("spec");
        let mut hard = ResourceList::read(spec.object("hard"));
        hard.retain(|name| evaluator.tracks(name));
        Self { name: metadata(quota).text("name").to_owned(), scopes: scopes(spec), hard }
    }

    /// Says what would be too much.
    fn check(&self, asked: &ResourceList, used: &ResourceList) -> Result<(), String> {
        let (mut requested, mut in_use, mut allowed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, amount) in asked.iter() {
            let (used, Some(hard)) = (used.get(name).cloned().unwrap_or_default(), self.hard.get(name)) else {
                continue;
            };
            if used.plus(amount).compare(hard).is_gt() {
                requested.push(format!("{name}={amount}"));
                in_use.push(format!("{name}={used}"));
                allowed.push(format!("{name}={hard}"));
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            requested.join(","),
            in_use.join(","),
            allowed.join(",")
        ))
    }
}

impl Held<'_> {
    /// Writes into the quotas what is used, now that the write is stored.
    pub fn settle(mut self, registry: &Registry, served: &Served, namespace: &str) {
        let Some(kind) = registry.find("", "v1", "resourcequotas") else { return };
        let options = WriteOptions { manager: "kube-apiserver".to_owned(), ..WriteOptions::default() };
        for quota in &self.quotas {
            let used = self.ledgers.used(registry, served, namespace, &self.evaluator, &quota.scopes);
            let update = Update {
                namespace,
                name: &quota.name,
                part: Part::Status,
                subresource: "status",
                options: &options,
                admission: Admission::OWN,
            };
            let mut warnings = Vec::new();
            let written = registry.change(&kind, update, None, &mut warnings, |live, _| {
                let mut live = live.clone();
                let status = live.object_or_new("status");
                // What the controller has not yet taken up it will sum up itself.
                let known: Vec<Text> =
                    status.part("hard").keys().filter(|name| self.evaluator.tracks(name)).cloned().collect();
                for name in known {
                    let amount = used.get(&name).cloned().unwrap_or_default();
                    status.object_or_new("used").insert(name, amount.to_string().into());
                }
                Ok(live)
            });
            // It may be gone by now.
            if let Err(error) = at_once(written)
                && error.reason != "NotFound"
            {
                tracing::error!(quota = quota.name, %error, "cannot write what is used");
            }
        }
    }
}
