//! PodSecurity: what a namespace's labels `pod-security.kubernetes.io/…` say of its pods is enforced, and warned of.
//!
//! Nobody is exempt, and a namespace without labels allows everything, as in the reference without a configuration file.
//! There is no audit log here for `audit` to be told in.

mod checks;
mod policy;

use std::collections::{BTreeMap, HashSet};

use checks::{Finding, Pod, findings};
use policy::{Policy, Rule};

use super::Write;
use crate::field::go_quote;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::storage::Range;

/// Pods of a namespace that are looked at when it gets another rule.
const MOST_PODS: usize = 3000;

/// Refuses a pod that breaks what is enforced in its namespace; warns of what it would break.
pub(super) fn pod(write: &Write<'_>, object: &Object, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    let Some(policy) = policy_of(write, object) else {
        let why = format!("failed to lookup namespace {}", go_quote(metadata(object).text("namespace")));
        return Err(ApiError::internal(&why));
    };
    if write.live.is_some_and(|old| !changes_image(object, old)) {
        return Ok(());
    }
    let pod = Pod { metadata: metadata(object), spec: object.part("spec") };
    let broken = findings(policy.enforce, &pod);
    if !broken.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&broken));
        return Err(write.forbidden(metadata(object).text("name"), &why));
    }
    warn(policy.warn, &pod, warnings);
    Ok(())
}

/// Warns of a template whose pods would break a namespace's rules.
pub(super) fn template(write: &Write<'_>, object: &Object, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    let Some(policy) = policy_of(write, object) else { return Ok(()) };
    let template = match super::kind(write.served).1 {
        "podtemplates" => object.object("template"),
        "cronjobs" => object.part("spec").part("jobTemplate").part("spec").object("template"),
        _ => object.part("spec").object("template"),
    };
    if let Some(template) = template {
        let pod = Pod { metadata: metadata(template), spec: template.part("spec") };
        warn(policy.warn, &pod, warnings);
    }
    Ok(())
}

/// Refuses labels that say nothing known; warns of the pods that break what is enforced from now on.
pub(super) fn namespace(write: &Write<'_>, object: &Object, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    let (policy, errors) = read(object);
    let before = write.live.map(read);
    let known = before.as_ref().is_some_and(|(_, before)| *before == errors);
    let name = metadata(object).text("name");
    if !errors.is_empty() && !known {
        return Err(write.served.invalid_object(object, name, &errors));
    }
    if let Some((before, _)) = before
        && policy.enforce.is_stricter_than(before.enforce)
    {
        warnings.extend(broken_by_pods(write.registry, name, policy.enforce));
    }
    Ok(())
}

fn read(namespace: &Object) -> (Policy, Vec<crate::field::FieldError>) {
    let labels = metadata(namespace).part("labels");
    Policy::read(|label| labels.maybe_text(label))
}

/// What the labels of an object's namespace say; `None` if there is no such namespace.
fn policy_of(write: &Write<'_>, object: &Object) -> Option<Policy> {
    let namespaces = write.registry.find("", "v1", "namespaces")?;
    let found = write.registry.storage.get(namespaces.id, "", metadata(object).text("namespace"))?;
    Some(Policy::read(|label| found.label(label)).0)
}

/// Whether an update has another number of containers than before, or another image: nothing else that a check looks at
/// can change.
fn changes_image(pod: &Object, old: &Object) -> bool {
    let (spec, before) = (pod.part("spec"), old.part("spec"));
    let lists = ["containers", "initContainers"];
    let changed = lists.iter().any(|list| {
        let images = |spec: &Object| spec.items(list).map(|one| one.text("image").to_owned()).collect::<Vec<_>>();
        images(spec) != images(before)
    });
    changed
        || spec.items("ephemeralContainers").any(|one| {
            let old = before.items("ephemeralContainers").find(|old| old.text("name") == one.text("name"));
            old.is_none_or(|old| old.text("image") != one.text("image"))
        })
}

fn warn(rule: Rule, pod: &Pod<'_>, warnings: &mut Vec<String>) {
    let broken = findings(rule, pod);
    if !broken.is_empty() {
        warnings.push(format!("would violate PodSecurity \"{rule}\": {}", details(&broken)));
    }
}

/// What is wrong, and with what of the pod.
fn details(broken: &[Finding]) -> String {
    let all = broken.iter().map(|Finding { reason, detail }| format!("{reason} ({detail})"));
    all.collect::<Vec<_>>().join(", ")
}

/// Says which pods of a namespace break a rule: one of each controller is looked at before the others.
fn broken_by_pods(registry: &Registry, namespace: &str, rule: Rule) -> Vec<String> {
    let Some(pods) = registry.find("", "v1", "pods") else { return Vec::new() };
    let Ok(listed) = registry.storage.list(pods.id, &Range { namespace, ..Range::default() }, None) else {
        return Vec::new();
    };
    let all = listed.entries.len();
    let mut seen = HashSet::new();
    let (first, others): (Vec<_>, Vec<_>) = listed.entries.iter().map(|entry| entry.object()).partition(|pod| {
        let mut owners = metadata(pod).items("ownerReferences");
        let controller = owners.find(|owner| owner.flag("controller")).map(|owner| owner.text("uid").to_owned());
        controller.is_none_or(|uid| seen.insert(uid))
    });
    let mut broken: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in first.iter().chain(&others).take(MOST_PODS) {
        let found = findings(rule, &Pod { metadata: metadata(object), spec: object.part("spec") });
        if !found.is_empty() {
            let reasons: Vec<String> = found.into_iter().map(|finding| finding.reason).collect();
            broken.entry(reasons.join(", ")).or_default().push(metadata(object).text("name").to_owned());
        }
    }
    let mut told = Vec::new();
    if all > MOST_PODS {
        told.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {all} existing pods"
        ));
    }
    if !broken.is_empty() {
        let namespace = go_quote(namespace);
        told.push(format!(
            "existing pods in namespace {namespace} violate the new PodSecurity enforce level \"{rule}\""
        ));
    }
    let mut by_pods: Vec<String> = broken
        .into_iter()
        .map(|(reasons, names)| {
            let first = names.iter().min().map_or("", String::as_str);
            match names.len() {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                many => format!("{first} (and {} other pods): {reasons}", many - 1),
            }
        })
        .collect();
    // The reference sorts what it has to say, not whom.
    by_pods.sort();
    told.extend(by_pods);
    told
}
