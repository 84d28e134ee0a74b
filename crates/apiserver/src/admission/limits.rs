//! LimitRanger: the containers of a pod get what its namespace's LimitRanges give those that ask for nothing, and pods and
//! claims ask for no less and no more than these allow.

use std::collections::BTreeMap;

use muster_schema::quantity::Quantity;
use muster_tree::{Text, Value};

use super::{Write, stored};
use crate::field;
use crate::model::fields::{Fields as _, metadata};
use crate::model::pod::aggregate;
use crate::model::{Object, ResourceList};
use crate::status::ApiError;

/// Tells what a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

/// Gives the containers of a pod what they do not ask for, from which more may follow by default.
pub(super) fn complete(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    for range in ranges(write, pod) {
        let defaults = |field: &str| -> BTreeMap<Text, Value> {
            let limits = range.part("spec").items("limits").filter(|limit| limit.text("type") == CONTAINER);
            limits.flat_map(|limit| limit.part(field)).map(|(name, amount)| (name.clone(), amount.clone())).collect()
        };
        let (requests, limits) = (defaults("defaultRequest"), defaults("default"));
        let mut told = Vec::new();
        for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod.object_or_new("spec").items_mut(list) {
                for (field, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                    let given = give(container, field, defaults);
                    if !given.is_empty() {
                        told.push(format!("{} {what} for {word} {}", given.join(", "), container.text("name")));
                    }
                }
            }
        }
        if !told.is_empty() {
            let text = format!("LimitRanger plugin set: {}", told.join("; "));
            let annotations = pod.object_or_new("metadata").object_or_new("annotations");
            annotations.insert(ANNOTATION.to_owned(), text.into());
            write.served.kind.default(pod);
        }
    }
    Ok(())
}

/// Sets what a list of a container does not have; answers what that is.
fn give<'d>(container: &mut Object, field: &str, defaults: &'d BTreeMap<Text, Value>) -> Vec<&'d str> {
    let own = container.part("resources").part(field);
    let missing: Vec<&str> = defaults.keys().map(Text::as_str).filter(|name| !own.contains_key(name)).collect();
    if !missing.is_empty() {
        let own = container.object_or_new("resources").object_or_new(field);
        own.extend(missing.iter().map(|name| ((*name).to_owned(), defaults[*name].clone())));
    }
    missing
}

/// Holds a pod or a claim against the LimitRanges.
pub(super) fn validate(write: &Write<'_>, object: &Object) -> Result<(), ApiError> {
    let spec = object.part("spec");
    for range in ranges(write, object) {
        let mut wrong = Vec::new();
        for limit in range.part("spec").items("limits") {
            match (write.served.resource().kind.as_ref(), limit.text("type")) {
                ("Pod", CONTAINER) => {
                    for container in spec.items("containers").chain(spec.items("initContainers")) {
                        Asked::of(container.part("resources")).check(limit, CONTAINER, &mut wrong);
                    }
                }
                ("Pod", POD) => Asked::of_pod(spec).check(limit, POD, &mut wrong),
                (CLAIM, CLAIM) => {
                    let requests = ResourceList::read(spec.part("resources").object("requests"));
                    Asked { requests, limits: ResourceList::default() }.check_claim(limit, &mut wrong);
                }
                _ => {}
            }
        }
        if !wrong.is_empty() {
            return Err(write.forbidden(super::name_of(object), &field::join(wrong)));
        }
    }
    Ok(())
}

/// Those of the object's namespace; what is being deleted is held against none.
fn ranges(write: &Write<'_>, object: &Object) -> Vec<Object> {
    if write.ends() {
        return Vec::new();
    }
    stored(write.registry, "", "limitranges", metadata(object).text("namespace"), "")
}

/// What a container, a pod or a claim asks for.
struct Asked {
    requests: ResourceList,
    limits: ResourceList,
}

impl Asked {
    fn of(resources: &Object) -> Self {
        let list = |field: &str| ResourceList::read(resources.object(field));
        Self { requests: list("requests"), limits: list("limits") }
    }

    /// Its containers' together, and its own where that says it.
    fn of_pod(spec: &Object) -> Self {
        let list = |field: &str| {
            let mut total = aggregate(spec, field);
            for (name, amount) in ResourceList::read(spec.part("resources").object(field)) {
                if matches!(name.as_str(), "cpu" | "memory") {
                    total.insert(name, amount);
                }
            }
            total
        };
        Self { requests: list("requests"), limits: list("limits") }
    }

    fn check(&self, limit: &Object, kind: &str, wrong: &mut Vec<String>) {
        wrong.extend(listed(limit, "min").filter_map(|(name, least)| self.below(kind, &name, &least)));
        wrong.extend(listed(limit, "max").filter_map(|(name, most)| self.above(kind, &name, &most)));
        let ratios = listed(limit, "maxLimitRequestRatio");
        wrong.extend(ratios.filter_map(|(name, most)| self.too_far_apart(kind, &name, &most)));
    }

    fn check_claim(&self, limit: &Object, wrong: &mut Vec<String>) {
        wrong.extend(listed(limit, "min").filter_map(|(name, least)| self.below(CLAIM, &name, &least)));
        wrong.extend(listed(limit, "max").filter_map(|(name, most)| {
            let begin = format!("maximum {name} usage per {CLAIM} is {most}");
            match self.requests.get(&name) {
                None => Some(format!("{begin}.  No request is specified")),
                Some(request) if exceeds(request, &most) => Some(format!("{begin}, but request is {request}")),
                Some(_) => None,
            }
        }));
    }

    fn below(&self, kind: &str, name: &str, least: &Quantity) -> Option<String> {
        let begin = format!("minimum {name} usage per {kind} is {least}");
        let Some(request) = self.requests.get(name) else { return Some(format!("{begin}.  No request is specified")) };
        if exceeds(least, request) {
            return Some(format!("{begin}, but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| exceeds(least, limit))?;
        Some(format!("{begin}, but limit is {limit}"))
    }

    fn above(&self, kind: &str, name: &str, most: &Quantity) -> Option<String> {
        let begin = format!("maximum {name} usage per {kind} is {most}");
        let Some(limit) = self.limits.get(name) else { return Some(format!("{begin}.  No limit is specified")) };
        if exceeds(limit, most) {
            return Some(format!("{begin}, but limit is {limit}"));
        }
        let request = self.requests.get(name).filter(|request| exceeds(request, most))?;
        Some(format!("{begin}, but request is {request}"))
    }

    fn too_far_apart(&self, kind: &str, name: &str, most: &Quantity) -> Option<String> {
        let begin = format!("{name} max limit to request ratio per {kind} is {most}, but");
        let Some(request) = self.requests.get(name).filter(|request| !request.is_zero()) else {
            return Some(format!("{begin} no request is specified or request is 0"));
        };
        let Some(limit) = self.limits.get(name).filter(|limit| !limit.is_zero()) else {
            return Some(format!("{begin} no limit is specified or limit is 0"));
        };
        let (limit, request) = at_one_scale(limit, request);
        let ratio = as_float(limit) / as_float(request);
        let within = match most.milli_value() {
            i64::MAX => ratio <= as_float(most.value()),
            millis => ratio * 1000.0 <= as_float(millis),
        };
        (!within).then(|| format!("{begin} provided ratio is {ratio:.6}"))
    }
}

fn listed(limit: &Object, field: &str) -> impl Iterator<Item = (String, Quantity)> {
    ResourceList::read(limit.object(field)).into_iter()
}

/// Whether one amount is more than another, in thousandths where both can be counted in these.
fn exceeds(one: &Quantity, other: &Quantity) -> bool {
    let (one, other) = at_one_scale(one, other);
    one > other
}

fn at_one_scale(one: &Quantity, other: &Quantity) -> (i64, i64) {
    match (one.milli_value(), other.milli_value()) {
        (i64::MAX, _) | (_, i64::MAX) => (one.value(), other.value()),
        millis => millis,
    }
}

#[allow(clippy::cast_precision_loss, reason = "Go's float64 of the same number")]
fn as_float(number: i64) -> f64 {
    number as f64
}
