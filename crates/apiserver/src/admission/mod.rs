//! Admission: what stands between a decoded write and storage besides the kind's own rules: plugins, webhooks, policies.
//!
//! ```text
//!   Admission (asked) --> plugins: namespace lifecycle first, then what completes a pod (this file)
//!                    \--> chain: webhooks and policies --> matching: is this one meant? --> conditions, expression
//!                          (what is configured:       \--> webhook: review --> crate::webhook
//!                           configuration)             \-> policy: params, expression
//! ```
//!
//! The order of plugins is the real server's.

mod asked;
mod attributes;
mod certificates;
mod chain;
mod conditions;
mod configuration;
mod expression;
mod lifecycle;
mod matching;
mod params;
mod policy;
mod priority;
mod resize;
mod review;
mod serviceaccount;
mod taints;
mod tolerations;
mod webhook;
mod written;

pub use asked::{Admission, Asked, at_once};
pub use attributes::Operation;
pub use configuration::{Configuration, Configured};

use crate::access::User;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part};
use crate::registry::{Registry, Served};
use crate::status::ApiError;

/// Admits a creation.
///
/// # Errors
/// 404 for a missing namespace; 403 for whatever a plugin forbids.
pub fn create(registry: &Registry, served: &Served, object: &mut Object) -> Result<(), ApiError> {
    lifecycle::create(registry, served, object)?;
    if is_pod(served) {
        serviceaccount::create(registry, served, object)?;
        priority::create(served, object)?;
        tolerations::complete(object);
    }
    if served.resource().group.is_empty() && served.resource().plural == "nodes" {
        taints::complete(object);
    }
    Ok(())
}

/// The name that messages give an object: its own, or what one will be generated from.
fn name_of(object: &Object) -> &str {
    let meta = metadata(object);
    match meta.text("name") {
        "" => meta.text("generateName"),
        name => name,
    }
}

/// Admits a creation below an object, such as a binding.
///
/// # Errors
/// 404 for a missing namespace; 403 for a terminating one.
pub fn create_below(registry: &Registry, served: &Served, namespace: &str, name: &str) -> Result<(), ApiError> {
    lifecycle::create_in(registry, served, namespace, name)
}

/// Completes an update.
pub fn update(served: &Served, object: &mut Object, old: &Object) {
    if is_pod(served) {
        priority::update(object, old);
        tolerations::complete(object);
    }
}

/// Looks at a creation once it is complete and valid.
///
/// # Errors
/// 403 for whatever a plugin forbids.
pub fn validate_create(served: &Served, object: &Object) -> Result<(), ApiError> {
    certificates::create(served, object)
}

/// Looks at an update once it is complete and valid.
///
/// # Errors
/// 403 for whatever a plugin forbids.
pub fn validate_update(
    registry: &Registry,
    served: &Served,
    part: Part,
    object: &Object,
    live: &Object,
    user: &User,
) -> Result<(), ApiError> {
    if is_pod(served) {
        resize::validate(registry, served, part, object, live)?;
    }
    certificates::update(registry, served, part, object, live, user)
}

/// Admits a deletion.
///
/// # Errors
/// 403 for a namespace that must stay.
pub fn delete(served: &Served, name: &str) -> Result<(), ApiError> {
    lifecycle::delete(served, name)
}

fn is_pod(served: &Served) -> bool {
    let resource = served.resource();
    resource.group.is_empty() && resource.plural == "pods"
}
