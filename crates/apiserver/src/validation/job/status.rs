//! A Job's status: which states there are, and how one may follow another. A rule that was broken before, and that this
//! write has nothing to do with, does not stand in its way.

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{indexes, is_indexed};
use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields};
use crate::validation::workload::validate_counts;
use crate::validation::{Errors, IMMUTABLE, Path, internal};

const STATUS: Path<'_> = Path::new("status");

/// Whether a condition of this type is `True`.
pub(super) fn is_true(status: &Object, condition: &str) -> bool {
    has_condition(status, condition, "True")
}

fn has_condition(status: &Object, condition: &str, value: &str) -> bool {
    status.items("conditions").any(|c| c.text("type") == condition && c.text("status") == value)
}

/// What a status says of how far the Job has come.
struct State {
    complete: bool,
    failed: bool,
    failure_target: bool,
    success: bool,
}

impl State {
    fn of(status: &Object) -> Self {
        Self {
            complete: is_true(status, "Complete"),
            failed: is_true(status, "Failed"),
            failure_target: is_true(status, "FailureTarget"),
            success: is_true(status, "SuccessCriteriaMet"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }
}

/// Checks a Job's status.
pub fn validate_status(job: &Object, old: &Object, errors: &mut Errors) {
    let (status, before) = (job.part("status"), old.part("status"));
    validate_counts(status, &["active", "succeeded", "failed", "ready", "terminating"], errors);
    validate_uncounted(status, errors);
    let change = Change { spec: job.part("spec"), status, before, is: State::of(status), was: State::of(before) };
    change.validate_state(errors);
    change.validate_indexes(errors);
    change.validate_pods_and_success(errors);
    change.validate_transition(errors);
}

/// No pod is counted twice.
fn validate_uncounted(status: &Object, errors: &mut Errors) {
    let pods = status.part("uncountedTerminatedPods");
    let path = STATUS.child("uncountedTerminatedPods");
    let mut seen: Vec<&str> = Vec::new();
    for list in ["succeeded", "failed"] {
        let path = path.child(list);
        for (i, uid) in pods.strings(list).enumerate() {
            if uid.is_empty() {
                errors.push(FieldError::invalid(path.index(i), uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(FieldError::duplicate(path.index(i), uid));
            } else {
                seen.push(uid);
            }
        }
    }
}

struct Change<'a> {
    spec: &'a Object,
    status: &'a Object,
    before: &'a Object,
    is: State,
    was: State,
}

impl Change<'_> {
    fn changed(&self, field: &str) -> bool {
        self.status.get(field) != self.before.get(field)
    }

    fn shown(&self, field: &str) -> Shown {
        self.status.get(field).unwrap_or(&Value::Null).into()
    }

    fn time(&self, field: &str) -> Option<Timestamp> {
        Timestamp::parse(self.status.maybe_text(field)?).ok()
    }

    fn validate_state(&self, errors: &mut Errors) {
        let Self { is, was, status, .. } = self;
        let complete = is.complete != was.complete;
        let failed = is.failed != was.failed;
        let finished = is.finished() != was.finished();
        let (started, ended) = (self.changed("startTime"), self.changed("completionTime"));
        let conditions = STATUS.child("conditions");
        let completion = STATUS.child("completionTime");
        if (complete || failed) && is.complete && is.failed {
            errors.push(FieldError::wrong(conditions, "cannot set Complete=True and Failed=true conditions"));
        }
        if (complete || is.failure_target != was.failure_target) && is.complete && is.failure_target {
            errors.push(FieldError::wrong(conditions, "cannot set Complete=True and FailureTarget=true conditions"));
        }
        if complete || ended {
            match status.contains_key("completionTime") {
                true if !is.complete => {
                    let why = "cannot set completionTime when there is no Complete=True condition";
                    errors.push(FieldError::invalid(completion, self.shown("completionTime"), why));
                }
                false if is.complete => {
                    errors.push(FieldError::required(completion, "completionTime is required for Complete jobs"));
                }
                _ => {}
            }
        }
        if (started || ended)
            && let (Some(start), Some(end)) = (self.time("startTime"), self.time("completionTime"))
            && end < start
        {
            let why = "must be equal to or after `startTime`";
            errors.push(FieldError::invalid(completion, self.shown("completionTime"), why));
        }
        if (failed || self.changed("failedIndexes")) && is.failed && !is.failure_target {
            let why = "cannot set Failed=True condition without the FailureTarget=true condition";
            errors.push(FieldError::wrong(conditions, why));
        }
        if (complete || is.success != was.success) && is.complete && !is.success {
            let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            errors.push(FieldError::wrong(conditions, why));
        }
        if !is.finished() {
            return;
        }
        if (finished || self.changed("active")) && status.int("active") > 0 {
            let why = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid(STATUS.child("active"), status.int("active"), why));
        }
        let nothing_to_do = self.spec.flag("suspend") && self.spec.maybe_int("completions") == Some(0);
        if (finished || started) && !nothing_to_do && !status.contains_key("startTime") {
            errors.push(FieldError::required(STATUS.child("startTime"), "startTime is required for finished job"));
        }
        let uncounted = status.part("uncountedTerminatedPods");
        let empty = uncounted.list("failed").is_empty() && uncounted.list("succeeded").is_empty();
        if (finished || self.changed("uncountedTerminatedPods")) && !empty {
            let shown = internal::shown("UncountedTerminatedPods", uncounted);
            let path = STATUS.child("uncountedTerminatedPods");
            errors.push(FieldError::invalid(path, shown, "must be empty for finished job"));
        }
    }

    fn validate_indexes(&self, errors: &mut Errors) {
        let (spec, status) = (self.spec, self.status);
        let (completed, failed) = (status.text("completedIndexes"), status.maybe_text("failedIndexes"));
        let (completed_changed, failed_changed) = (self.changed("completedIndexes"), self.changed("failedIndexes"));
        let (completed_path, failed_path) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
        let completions = spec.maybe_int("completions");
        let by_index = spec.contains_key("backoffLimitPerIndex");
        if let Some(completions) = completions {
            if completed_changed && let Err(why) = indexes::count(completed, completions) {
                let why = format!("error parsing completedIndexes: {why}");
                errors.push(FieldError::invalid(completed_path, completed, why));
            }
            if let Some(failed) = failed.filter(|_| failed_changed && by_index)
                && let Err(why) = indexes::count(failed, completions)
            {
                errors.push(FieldError::invalid(failed_path, failed, format!("error parsing failedIndexes: {why}")));
            }
        }
        if completed_changed && !completed.is_empty() && !is_indexed(spec) {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(completed_path, completed, why));
        }
        let Some(failed) = failed else { return };
        if failed_changed && !by_index {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(failed_path, failed, why));
        }
        if let Some(completions) = completions.filter(|_| completed_changed || failed_changed)
            && let Some(index) = indexes::overlap(completed, failed, completions)
        {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(FieldError::invalid(failed_path, failed, why));
        }
    }

    fn validate_pods_and_success(&self, errors: &mut Errors) {
        let Self { is, was, status, .. } = self;
        let finished = is.finished() != was.finished();
        if (finished || self.changed("terminating")) && is.finished() && status.int("terminating") > 0 {
            let why = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid(STATUS.child("terminating"), status.int("terminating"), why));
        }
        if (self.changed("ready") || self.changed("active"))
            && let Some(ready) = status.maybe_int("ready").filter(|ready| *ready > status.int("active"))
        {
            let why = "cannot set more ready pods than active";
            errors.push(FieldError::invalid(STATUS.child("ready"), ready, why));
        }
        let conditions = STATUS.child("conditions");
        for (other, why) in [
            (is.failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            (is.failure_target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
        ] {
            if is.success && other {
                errors.push(FieldError::wrong(conditions, why));
            }
        }
        if self.spec.contains_key("successPolicy") && !is.success && is.complete {
            let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            errors.push(FieldError::wrong(conditions, why));
        }
    }

    fn validate_transition(&self, errors: &mut Errors) {
        let Self { is, was, status, before, .. } = self;
        let conditions = STATUS.child("conditions");
        for (name, was, is) in [
            ("Failed", was.failed, is.failed),
            ("Complete", was.complete, is.complete),
            ("FailureTarget", was.failure_target, is.failure_target),
        ] {
            if was && !is {
                let why = format!("cannot disable the terminal {name}=True condition");
                errors.push(FieldError::wrong(conditions, why));
            }
        }
        // Where an Indexed Job's parallelism is its completions, it may be scaled down.
        let elastic = is_indexed(self.spec) && self.spec.get("completions") == self.spec.get("parallelism");
        for counter in ["failed", "succeeded"] {
            let counts = counter == "failed" || !elastic;
            if counts && status.int(counter) < before.int(counter) {
                let why = format!("cannot decrease the {counter} counter");
                errors.push(FieldError::invalid(STATUS.child(counter), status.int(counter), why));
            }
        }
        let both = |field: &str| status.contains_key(field) && before.contains_key(field);
        if both("completionTime") && self.changed("completionTime") {
            errors.push(FieldError::invalid(STATUS.child("completionTime"), self.shown("completionTime"), IMMUTABLE));
        }
        let resumes = is_true(before, "Suspended") && has_condition(status, "Suspended", "False");
        let restarts = before.contains_key("startTime") && self.changed("startTime");
        if restarts && !resumes && !self.spec.flag("suspend") {
            let why = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid(STATUS.child("startTime"), self.shown("startTime"), why));
        }
        if was.success && !is.success {
            errors.push(FieldError::wrong(conditions, "cannot disable the SuccessCriteriaMet=True condition"));
        }
        if was.complete && !was.success && is.success {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            errors.push(FieldError::wrong(conditions, why));
        }
    }
}
