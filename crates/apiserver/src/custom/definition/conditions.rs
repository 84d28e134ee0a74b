//! What the server says of a definition: whether its names are free, whether it is served, and whether it is going.

use muster_tree::{Value, json};

use super::validate::{Approval, approval_of, bundle_is_valid, is_protected};
use super::{Definition, Names, structure};
use crate::custom::Object;
use crate::field::{aggregate, go_quote};
use crate::validation::Errors;

/// A condition, but for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

impl Condition {
    /// A condition.
    pub fn new(kind: &'static str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status, reason, message: message.into() }
    }

    /// That a definition is going, and how far that has come.
    pub fn terminating(status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new("Terminating", status, reason, message)
    }

    fn is(&self, object: &Object) -> bool {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        text("type") == self.kind
            && text("status") == self.status
            && text("reason") == self.reason
            && text("message") == self.message
    }
}

/// Writes a condition into a definition's status.
pub fn set(object: &mut Object, condition: &Condition, now: &str) {
    let status = object.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    let known = list.iter_mut().find(|c| c.get("type").and_then(Value::as_str) == Some(condition.kind));
    let changed = known.as_ref().is_none_or(|c| c.get("status").and_then(Value::as_str) != Some(condition.status));
    let time = match (&known, changed) {
        (Some(known), false) => known.get("lastTransitionTime").cloned().unwrap_or_else(|| Value::from(now)),
        _ => Value::from(now),
    };
    let written = json!({
        "type": condition.kind, "status": condition.status, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message,
    });
    match known {
        Some(known) => *known = written,
        None => list.push(written),
    }
}

/// The names of one group that are taken.
#[derive(Debug, Default)]
pub struct Taken<'a>(Vec<&'a Names>);

impl<'a> FromIterator<&'a Names> for Taken<'a> {
    fn from_iter<I: IntoIterator<Item = &'a Names>>(accepted: I) -> Self {
        Self(accepted.into_iter().collect())
    }
}

impl Taken<'_> {
    fn resource(&self, name: &str) -> bool {
        self.0.iter().any(|names| {
            names.plural == name || names.singular == name || names.short_names.iter().any(|short| short == name)
        })
    }

    fn kind(&self, name: &str) -> bool {
        self.0.iter().any(|names| names.kind == name || names.list_kind == name)
    }
}

/// The names that a definition gets, and what is said of them; `None` where nothing changes.
#[must_use]
pub fn accept(definition: &Definition, taken: &Taken<'_>) -> Option<(Names, [Condition; 2])> {
    let (wanted, had) = (&definition.spec.names, &definition.status.accepted_names);
    if wanted == had {
        return None;
    }
    let mut names = had.clone();
    let mut conflict: Option<(&'static str, String)> = None;
    let in_use = |name: &str| format!("{} is already in use", go_quote(name));
    let resource = |wanted: &str, had: &str| (wanted != had && taken.resource(wanted)).then(|| in_use(wanted));
    let kind = |wanted: &str, had: &str| (wanted != had && taken.kind(wanted)).then(|| in_use(wanted));
    let mut check = |reason, refused: Option<String>, wanted: &String, name: &mut String| match refused {
        Some(why) => conflict = Some((reason, why)),
        None => name.clone_from(wanted),
    };
    check("PluralConflict", resource(&wanted.plural, &had.plural), &wanted.plural, &mut names.plural);
    check("SingularConflict", resource(&wanted.singular, &had.singular), &wanted.singular, &mut names.singular);
    if wanted.short_names != had.short_names {
        let new = wanted.short_names.iter().filter(|name| !had.short_names.contains(name));
        let refused: Vec<String> = new.filter_map(|name| resource(name, "")).collect();
        match refused.as_slice() {
            [] => names.short_names.clone_from(&wanted.short_names),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
    let mut check = |reason, refused: Option<String>, wanted: &String, name: &mut String| match refused {
        Some(why) => conflict = Some((reason, why)),
        None => name.clone_from(wanted),
    };
    check("KindConflict", kind(&wanted.kind, &had.kind), &wanted.kind, &mut names.kind);
    check("ListKindConflict", kind(&wanted.list_kind, &had.list_kind), &wanted.list_kind, &mut names.list_kind);
    names.categories.clone_from(&wanted.categories);

    let accepted = match conflict {
        Some((reason, why)) => Condition::new("NamesAccepted", "False", reason, why),
        None => Condition::new("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    };
    let established = if definition.is("Established") {
        Condition::new("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    } else if accepted.status == "True" {
        Condition::new("Established", "False", "Installing", "the initial names have been accepted")
    } else {
        Condition::new("Established", "False", "NotAccepted", "not all names are accepted")
    };
    let known = definition.condition("NamesAccepted").is_some_and(|known| accepted.is(known));
    if names == *had && known {
        return None;
    }
    Some((names, [accepted, established]))
}

/// That a definition with accepted names is served; `None` where it has been said, or its names are not accepted.
#[must_use]
pub fn establish(definition: &Definition) -> Option<Condition> {
    if !definition.is("NamesAccepted") || definition.is("Established") {
        return None;
    }
    let condition = if bundle_is_valid(definition) {
        Condition::new("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    } else {
        Condition::new("Established", "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    };
    (!definition.condition("Established").is_some_and(|known| condition.is(known))).then_some(condition)
}

/// What is said of schemas that are not structural, and of groups of Kubernetes' own; what is true of most is not said.
#[must_use]
pub fn remarks(definition: &Definition) -> Vec<Condition> {
    let mut remarks = Vec::new();
    let mut errors = Errors::new();
    if definition.spec.preserve_unknown_fields {
        errors.push(crate::field::FieldError::invalid("spec.preserveUnknownFields", true, "must be false"));
    }
    for (index, version) in definition.spec.versions.iter().enumerate() {
        if let Some(schema) = version.props() {
            errors.extend(structure::validate(schema, &format!("spec.versions[{index}].schema.openAPIV3Schema")));
        }
    }
    if !errors.is_empty() {
        remarks.push(Condition::new("NonStructuralSchema", "True", "Violations", aggregate(&errors)));
    }
    if is_protected(&definition.spec.group) {
        const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
        let (state, why) = approval_of(definition);
        remarks.push(match state {
            Approval::Invalid => Condition::new(KIND, "False", "InvalidAnnotation", why),
            Approval::Missing => Condition::new(KIND, "False", "MissingAnnotation", why),
            Approval::Approved => Condition::new(KIND, "True", "ApprovedAnnotation", why),
            Approval::Bypassed => Condition::new(KIND, "False", "UnapprovedAnnotation", why),
        });
    }
    remarks.retain(|remark| !definition.condition(remark.kind).is_some_and(|known| remark.is(known)));
    remarks
}
