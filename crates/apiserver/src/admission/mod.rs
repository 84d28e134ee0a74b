//! Admission: what stands between a decoded write and storage besides the kind's own rules: plugins, webhooks, policies.
//!
//! ```text
//!   Admission (asked) --> steps: what plugins complete and refuse
//!                    \--> chain: webhooks and policies --> matching: is this one meant? --> conditions, expression
//!                          (what is configured:       |--> webhook: review --> crate::webhook
//!                           configuration)            \-> policy: params, expression --> mutating, validating
//!
//!   quota::hold refuses what a quota does not allow; others wait until the commit
//! ```
//!
//! The order of plugins is the real server's: namespace lifecycle first, quotas last.

mod asked;
mod attributes;
mod certificates;
mod chain;
mod classes;
mod conditions;
mod configuration;
mod expression;
mod lifecycle;
mod limits;
mod matching;
mod mutating;
mod params;
pub mod plugins;
mod podsecurity;
mod policy;
mod priority;
pub mod quota;
mod reinvocation;
mod resize;
mod review;
mod runtimeclass;
mod serviceaccount;
mod steps;
mod taints;
mod tolerations;
mod topology;
mod validating;
mod volumes;
mod webhook;
mod written;

pub use asked::{Admission, Asked, at_once};
pub use attributes::Operation;
pub use configuration::{Configuration, Configured};
use plugins::Plugin;
pub use steps::Write;

use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::storage::Range;

/// Admits a creation below an object, such as a binding.
///
/// # Errors
/// 404 for a missing namespace; 403 for a terminating one.
pub fn create_below(registry: &Registry, served: &Served, namespace: &str, name: &str) -> Result<(), ApiError> {
    if !registry.settings.plugins.run(Plugin::NamespaceLifecycle) {
        return Ok(());
    }
    lifecycle::create_in(registry, served, namespace, name)
}

/// Admits a deletion.
///
/// # Errors
/// 403 for a namespace or a priority class that must stay.
pub fn delete(registry: &Registry, served: &Served, name: &str) -> Result<(), ApiError> {
    if registry.settings.plugins.run(Plugin::NamespaceLifecycle) {
        lifecycle::delete(served, name)?;
    }
    if registry.settings.plugins.run(Plugin::Priority) {
        priority::delete_class(served, name)?;
    }
    Ok(())
}

/// Group and plural name.
fn kind(served: &Served) -> (&str, &str) {
    (&served.resource().group, &served.resource().plural)
}

/// The name that messages give an object: its own, or what one will be generated from.
fn name_of(object: &Object) -> &str {
    let meta = metadata(object);
    let named = [meta.text("name"), meta.text("generateName")];
    named.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}

/// An object of the cluster, of a kind in its first version.
fn find(registry: &Registry, group: &str, plural: &str, name: &str) -> Option<Object> {
    let served = registry.find(group, "v1", plural)?;
    registry.storage.get(served.id, "", name).map(|entry| entry.object())
}

/// The objects of a kind in its first version, by name: those in whose JSON a text stands, so that not all are read.
fn stored(registry: &Registry, group: &str, plural: &str, namespace: &str, text: &str) -> Vec<Object> {
    let Some(served) = registry.find(group, "v1", plural).filter(|served| registry.storage.count(served.id) > 0) else {
        return Vec::new();
    };
    let Ok(listed) = registry.storage.list(served.id, &Range { namespace, ..Range::default() }, None) else {
        return Vec::new();
    };
    let has = |json: &[u8]| std::str::from_utf8(json).is_ok_and(|json| json.contains(text));
    listed.entries.iter().filter(|entry| has(&entry.json().joined())).map(|entry| entry.object()).collect()
}
