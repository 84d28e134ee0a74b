//! Evicting a pod: deleting it if its disruption budget allows (API-27).

use muster_tree::json;

use super::options::{DeleteOptions, ListOptions, WriteOptions};
use super::pods::set_condition;
use super::update::Update;
use super::{Registry, Served};
use crate::admission::{Admission, at_once};
use crate::field::FieldError;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Model, Object, Part};
use crate::status::{ApiError, GroupResource};
use crate::storage::Entry;
use crate::validation::selector;

/// A budget takes no further evictions when so many have not been seen by its controller.
const MOST_UNSEEN: usize = 2000;
/// When to try again, in seconds, while a budget's status is out of date.
const RETRY_AFTER: u32 = 10;
/// What a refused eviction is told.
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Registry {
    /// Evicts a pod: `POST .../eviction`. It is taken from its budget, marked as disrupted, then deleted.
    ///
    /// # Errors
    /// 404, 429 for a budget that has nothing left, 500 for a pod of several budgets, and those of a deletion.
    pub fn evict(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        eviction: &Object,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        if metadata(eviction).text("name") != name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let asked = eviction.part("deleteOptions");
        let unreadable = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if asked.flag(unreadable) {
            let field = format!("deleteOptions.{unreadable}");
            let error =
                FieldError::invalid(field, true, "can not be set for pod eviction, try after removing the option");
            let Model { group, kind, .. } = Model::EVICTION;
            return Err(ApiError::invalid(GroupResource { group, resource: kind }, name, &[error]));
        }
        // What is wrong with the options is said when the budget has been asked.
        let (mut delete, wrong) = match DeleteOptions::from_body(asked) {
            Ok(delete) => (delete, None),
            Err(wrong) => {
                let dry_run = !asked.list("dryRun").is_empty();
                (DeleteOptions { dry_run, ..DeleteOptions::default() }, Some(wrong))
            }
        };
        delete.dry_run |= options.dry_run;
        loop {
            let entry = self.get(served, namespace, name)?;
            let pod = entry.object();
            let held = if !needs_no_budget(&pod) {
                self.take_from_budget(namespace, &pod, delete.dry_run)?
            } else if pod.part("status").text("phase") == "Pending" && !is_deleted(&pod) {
                Held::Pending
            } else {
                Held::No
            };
            let any_version = delete.resource_version.is_none();
            let mut delete = delete.clone();
            if matches!(held, Held::Unhealthy(_)) || (matches!(held, Held::Pending) && any_version) {
                delete.resource_version = Some(entry.version.to_string());
            }
            return match (self.mark_and_delete(served, &entry, delete, wrong.as_ref()), held) {
                (Err(error), Held::Unhealthy(budget)) if any_version && error.reason == "Conflict" => {
                    Err(not_seen(&budget))
                }
                (Err(error), Held::Pending)
                    if any_version && error.reason == "Conflict" && self.has_changed(served, &entry) =>
                {
                    continue;
                }
                (deleted, _) => deleted,
            };
        }
    }

    fn has_changed(&self, served: &Served, entry: &Entry) -> bool {
        let now = self.storage.get(served.id, &entry.namespace, &entry.name);
        now.is_none_or(|now| now.version != entry.version)
    }

    /// Takes a disruption from the pod's budget, if it has one.
    fn take_from_budget(&self, namespace: &str, pod: &Object, dry_run: bool) -> Result<Held, ApiError> {
        let Some(served) = self.find("policy", "v1", "poddisruptionbudgets") else { return Ok(Held::No) };
        let all = self.list(&served, namespace, None, &ListOptions::default())?;
        let mut budgets = all.entries.iter().map(|entry| entry.object()).filter(|budget| guards(budget, pod));
        let Some(budget) = budgets.next() else { return Ok(Held::No) };
        if budgets.next().is_some() {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::plain(why));
        }
        let name = metadata(&budget).text("name");
        if !is_ready(pod) && lets_unhealthy_go(&budget) {
            return Ok(Held::Unhealthy(name.to_owned()));
        }
        if dry_run {
            check(&budget)?;
            return Ok(Held::No);
        }
        let now = self.now_text();
        let own = WriteOptions { manager: "kube-apiserver".to_owned(), ..WriteOptions::default() };
        let update = Update {
            namespace,
            name,
            part: Part::Status,
            subresource: "status",
            options: &own,
            admission: Admission::OWN,
        };
        let mut warnings = Vec::new();
        let taken = self.change(&served, update, None, &mut warnings, |live, _| {
            check(live)?;
            let mut budget = live.clone();
            let status = budget.object_or_new("status");
            let left = status.int("disruptionsAllowed") - 1;
            status.insert("disruptionsAllowed", left.into());
            if left == 0 {
                let observed = status.int("observedGeneration");
                set_disallowed(status, observed, &now);
            }
            let pods = status.object_or_new("disruptedPods");
            pods.insert(metadata(pod).text("name").to_owned(), now.as_str().into());
            Ok(budget)
        });
        at_once(taken)?;
        Ok(Held::No)
    }

    /// Says in the pod's status that it was evicted, and deletes it.
    fn mark_and_delete(
        &self,
        served: &Served,
        entry: &Entry,
        mut delete: DeleteOptions,
        wrong: Option<&ApiError>,
    ) -> Result<(), ApiError> {
        let (namespace, name) = (&*entry.namespace, &*entry.name);
        if !delete.dry_run {
            let now = self.now_text();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            });
            // The server's own doing: no manager is recorded for it.
            let own = WriteOptions::default();
            let update = Update {
                namespace,
                name,
                part: Part::Status,
                subresource: "",
                options: &own,
                admission: Admission::OWN,
            };
            let mut warnings = Vec::new();
            let marked = self.change(served, update, None, &mut warnings, |live, _| {
                delete.check_preconditions(served.group_kind(), metadata(live))?;
                let mut pod = live.clone();
                set_condition(pod.object_or_new("status"), &condition, &now);
                Ok(pod)
            });
            let marked = at_once(marked)?;
            if delete.resource_version.is_some() {
                delete.resource_version = Some(metadata(&marked.object()).text("resourceVersion").to_owned());
            }
        }
        match wrong {
            Some(wrong) => Err(wrong.clone()),
            None => {
                let mut warnings = Vec::new();
                let deleted = self.delete(served, namespace, name, &delete, Admission::OWN, &mut warnings);
                at_once(deleted).map(|_| ())
            }
        }
    }
}

/// Whether the pod must still be what it was when it was looked at.
enum Held {
    /// Whatever it is now.
    No,
    /// It has not begun.
    Pending,
    /// It is not ready, which this budget does not count.
    Unhealthy(String),
}

fn is_deleted(pod: &Object) -> bool {
    metadata(pod).contains_key("deletionTimestamp")
}

/// Whether a pod does not run, or not for long, so that no budget counts it.
fn needs_no_budget(pod: &Object) -> bool {
    matches!(pod.part("status").text("phase"), "Succeeded" | "Failed" | "Pending") || is_deleted(pod)
}

fn is_ready(pod: &Object) -> bool {
    pod.part("status").items("conditions").any(|c| c.text("type") == "Ready" && c.text("status") == "True")
}

fn guards(budget: &Object, pod: &Object) -> bool {
    let selector = selector::parse(budget.part("spec").object("selector"));
    selector.is_ok_and(|selector| selector::matches(&selector, metadata(pod)))
}

/// Whether pods that are not ready may go without being counted.
fn lets_unhealthy_go(budget: &Object) -> bool {
    let status = budget.part("status");
    let (healthy, desired) = (status.int("currentHealthy"), status.int("desiredHealthy"));
    budget.part("spec").text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// Whether the budget has a disruption left.
fn check(budget: &Object) -> Result<(), ApiError> {
    let (name, status) = (metadata(budget).text("name"), budget.part("status"));
    if status.int("observedGeneration") < metadata(budget).int("generation") {
        return Err(not_seen(name));
    }
    let resource = GroupResource { group: "policy", resource: "poddisruptionbudget" };
    let allowed = status.int("disruptionsAllowed");
    if allowed < 0 {
        return Err(ApiError::forbidden(resource, name, "pdb disruptions allowed is negative"));
    }
    if status.part("disruptedPods").len() > MOST_UNSEEN {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(resource, name, why));
    }
    if allowed > 0 {
        return Ok(());
    }
    let says_no =
        |c: &&Object| c.text("type") == ALLOWED && c.text("status") == "False" && !c.text("message").is_empty();
    let condition = status.items("conditions").find(says_no);
    let (healthy, desired) = (status.int("currentHealthy"), status.int("desiredHealthy"));
    let why = match condition {
        Some(condition) if condition.text("reason") == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            condition.text("message")
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some(condition) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            condition.text("reason"),
            condition.text("message")
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(ApiError::too_many_requests(REFUSED, 0).with_cause("DisruptionBudget", why, ""))
}

/// 429: the budget's controller has still to look at it.
fn not_seen(budget: &str) -> ApiError {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    ApiError::too_many_requests(REFUSED, RETRY_AFTER).with_cause("DisruptionBudget", why, "")
}

/// The condition that says whether disruptions are allowed.
const ALLOWED: &str = "DisruptionAllowed";

/// Says in a budget's conditions that there is nothing left.
fn set_disallowed(status: &mut Object, observed: i64, now: &str) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let mut next = json!({
        "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "", "lastTransitionTime": now,
    });
    if observed != 0 {
        next["observedGeneration"] = observed.into();
    }
    match conditions.iter_mut().find(|condition| condition["type"] == ALLOWED) {
        Some(known) => {
            if known["status"] == "False" {
                next["lastTransitionTime"] = known["lastTransitionTime"].take();
            }
            *known = next;
        }
        None => conditions.push(next),
    }
}
