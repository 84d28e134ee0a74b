//! Validation: what the reference server says of an object, in its words and in its order.
//!
//! Small parts, which a kind's `validate_*` calls.

pub mod admissionpolicy;
pub mod apiservice;
pub mod certificates;
pub mod conditions;
pub mod cron;
pub mod cronjob;
pub mod csi;
pub mod daemonset;
pub mod data;
pub mod deployment;
pub mod devices;
pub mod domain;
pub mod duration;
pub mod endpoints;
pub mod endpointslice;
pub mod event;
pub mod expression;
pub mod flowcontrol;
pub mod horizontalpodautoscaler;
pub mod ingress;
pub mod internal;
pub mod intstr;
pub mod ip;
pub mod job;
pub mod labels;
pub mod lease;
pub mod limitrange;
pub mod meta;
pub mod name;
pub mod namespace;
pub mod networking;
pub mod networkpolicy;
pub mod node;
pub mod persistentvolume;
pub mod persistentvolumeclaim;
pub mod pod;
pub mod poddisruptionbudget;
pub mod quota;
pub mod rbac;
pub mod scheduling;
pub mod selector;
pub mod service;
pub mod statefulset;
pub mod storageclass;
pub mod webhook;
pub mod workload;
pub mod zone;

use crate::field::FieldError;
pub use crate::field::path::Path;

/// Errors found so far; every check adds to it.
pub type Errors = Vec<FieldError>;

/// `must be greater than or equal to 0`, where a number is negative.
pub fn non_negative(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if value < 0 {
        errors.push(FieldError::invalid(path, value, NEGATIVE));
    }
}

/// One `Invalid value` error for each complaint.
pub fn complain(value: &str, complaints: Vec<String>, path: &Path<'_>, errors: &mut Errors) {
    for complaint in complaints {
        errors.push(FieldError::invalid(path, value, complaint));
    }
}

/// What is said of a negative number.
pub const NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a change to a field that cannot change.
pub const IMMUTABLE: &str = "field is immutable";
