//! Groups of Kubernetes' own: who wants a kind in one says who has approved of it.

use crate::cel::url;
use crate::custom::definition::{APPROVED_ANNOTATION, Definition};
use crate::field::{FieldError, go_quote};

/// Whether the group is Kubernetes' own.
#[must_use]
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
}

/// What an annotation says of the approval of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// Nothing.
    Missing,
    /// That there is none, and why.
    Bypassed,
    /// Where it was given.
    Approved,
    /// Neither.
    Invalid,
}

/// What a definition's annotation says of the approval of its group, and the words for it.
#[must_use]
pub fn approval_of(definition: &Definition) -> (Approval, String) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let text = definition.metadata.annotations.get(APPROVED_ANNOTATION).map_or("", String::as_str);
    if text.is_empty() {
        let why = format!("protected groups must have approval annotation {}, {SEE}", go_quote(APPROVED_ANNOTATION));
        return (Approval::Missing, why);
    }
    if text.starts_with("unapproved") {
        return (Approval::Bypassed, format!("not approved: {}", go_quote(text)));
    }
    if url::parse(text).is_some_and(|url| !url.host.is_empty() && !url.scheme.is_empty()) {
        return (Approval::Approved, format!("approved in {text}"));
    }
    let why = format!(
        "protected groups must have approval annotation {} with either a URL or a reason starting with \"unapproved\", {SEE}",
        go_quote(APPROVED_ANNOTATION)
    );
    (Approval::Invalid, why)
}

pub(super) fn approval(definition: &Definition, old: Option<&Definition>) -> Option<FieldError> {
    if !is_protected(&definition.spec.group) {
        return None;
    }
    let (state, why) = approval_of(definition);
    if old.is_some_and(|old| approval_of(old).0 == state) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVED_ANNOTATION}]");
    match state {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(FieldError::required(field, why)),
        Approval::Invalid => {
            let text = definition.metadata.annotations.get(APPROVED_ANNOTATION).map_or("", String::as_str);
            Some(FieldError::invalid(field, text, why))
        }
    }
}
