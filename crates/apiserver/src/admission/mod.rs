//! Admission: what stands between a decoded write and storage besides the kind's own rules: plugins, webhooks, policies.
//!
//! ```text
//!   Admission (asked) --> plugins, in this file
//!                    \--> chain: webhooks and policies --> matching: is this one meant? --> conditions, expression
//!                          (what is configured:       |--> webhook: review --> crate::webhook
//!                           configuration)            \-> policy: params, expression --> mutating, validating
//!
//!   plugins: create, update                      complete an object, before its kind looks at it
//!            validate_create, validate_update    refuse one that its kind takes
//!            quota::hold                         refuses what a quota does not allow; others wait until the commit
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
mod policy;
mod priority;
pub mod quota;
mod reinvocation;
mod resize;
mod review;
mod runtimeclass;
mod serviceaccount;
mod taints;
mod tolerations;
mod validating;
mod volumes;
mod webhook;
mod written;

pub use asked::{Admission, Asked, at_once};
pub use attributes::Operation;
pub use configuration::{Configuration, Configured};
use plugins::Plugin;

use crate::access::User;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part};
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::storage::Range;

/// Admits a creation.
///
/// # Errors
/// 404 for a missing namespace; 403 for whatever a plugin forbids.
pub fn create(registry: &Registry, served: &Served, object: &mut Object) -> Result<(), ApiError> {
    if registry.settings.plugins.run(Plugin::NamespaceLifecycle) {
        lifecycle::create(registry, served, object)?;
    }
    complete(registry, served, object)
}

/// Completes an object that is created; it may have been changed since it was last complete.
///
/// # Errors
/// 403 for whatever a plugin forbids.
fn complete(registry: &Registry, served: &Served, object: &mut Object) -> Result<(), ApiError> {
    let runs = |plugin| registry.settings.plugins.run(plugin);
    match kind(served) {
        ("", "pods") => {
            if runs(Plugin::LimitRanger) {
                limits::complete(registry, served, object);
            }
            if runs(Plugin::ServiceAccount) {
                serviceaccount::create(registry, served, object)?;
            }
            if runs(Plugin::Priority) {
                priority::create(registry, served, object)?;
            }
            if runs(Plugin::DefaultTolerationSeconds) {
                tolerations::complete(registry, object);
            }
            if runs(Plugin::RuntimeClass) {
                runtimeclass::create(registry, served, object)?;
            }
        }
        ("", "nodes") if runs(Plugin::TaintNodesByCondition) => taints::complete(object),
        ("", "persistentvolumeclaims") => {
            if runs(Plugin::DefaultStorageClass) {
                classes::complete_claim(registry, object);
            }
            if runs(Plugin::StorageObjectInUseProtection) {
                volumes::protect(object, volumes::CLAIM_FINALIZER);
            }
        }
        ("", "persistentvolumes") if runs(Plugin::StorageObjectInUseProtection) => {
            volumes::protect(object, volumes::VOLUME_FINALIZER);
        }
        ("storage.k8s.io", "volumeattributesclasses") if runs(Plugin::StorageObjectInUseProtection) => {
            volumes::protect(object, volumes::ATTRIBUTES_FINALIZER);
        }
        ("networking.k8s.io", "ingresses") if runs(Plugin::DefaultIngressClass) => {
            classes::complete_ingress(registry, object);
        }
        _ => {}
    }
    Ok(())
}

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

/// Completes an update.
pub fn update(registry: &Registry, served: &Served, part: Part, object: &mut Object, old: &Object) {
    let runs = |plugin| registry.settings.plugins.run(plugin);
    match (kind(served), part) {
        (("", "pods"), Part::Main) => {
            if runs(Plugin::Priority) {
                priority::update(object, old);
            }
            if runs(Plugin::DefaultTolerationSeconds) {
                tolerations::complete(registry, object);
            }
        }
        (("", "pods"), Part::Resize) if stays(old) && runs(Plugin::LimitRanger) => {
            limits::complete(registry, served, object);
        }
        _ => {}
    }
}

/// Admits a creation that is valid.
///
/// # Errors
/// 403 for whatever a plugin forbids.
pub fn validate_create(registry: &Registry, served: &Served, object: &Object) -> Result<(), ApiError> {
    let runs = |plugin| registry.settings.plugins.run(plugin);
    match kind(served) {
        ("", "pods" | "persistentvolumeclaims") => {
            if runs(Plugin::LimitRanger) {
                limits::validate(registry, served, object)?;
            }
            if runs(Plugin::RuntimeClass) && kind(served).1 == "pods" {
                runtimeclass::validate(registry, served, object)?;
            }
            Ok(())
        }
        ("scheduling.k8s.io", "priorityclasses") if runs(Plugin::Priority) => {
            priority::validate_class(registry, served, object, None)
        }
        _ if runs(Plugin::CertificateSubjectRestriction) => certificates::create(served, object),
        _ => Ok(()),
    }
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
    let runs = |plugin| registry.settings.plugins.run(plugin);
    match (kind(served), part) {
        (("", "pods"), part) => {
            if part == Part::Resize && stays(live) && runs(Plugin::LimitRanger) {
                limits::validate(registry, served, object)?;
            }
            if runs(Plugin::PodResizeValidator) {
                resize::validate(registry, served, part, object, live)?;
            }
            Ok(())
        }
        (("", "persistentvolumeclaims"), Part::Main) => {
            if stays(live) && runs(Plugin::LimitRanger) {
                limits::validate(registry, served, object)?;
            }
            if runs(Plugin::PersistentVolumeClaimResize) {
                volumes::validate_resize(registry, served, object, live)?;
            }
            Ok(())
        }
        (("scheduling.k8s.io", "priorityclasses"), Part::Main) if runs(Plugin::Priority) => {
            priority::validate_class(registry, served, object, Some(live))
        }
        (_, part) => certificates::update(registry, served, part, object, live, user),
    }
}

/// Admits a deletion.
///
/// # Errors
/// 403 for a namespace or a priority class that must stay.
pub fn delete(registry: &Registry, served: &Served, name: &str) -> Result<(), ApiError> {
    let runs = |plugin| registry.settings.plugins.run(plugin);
    if runs(Plugin::NamespaceLifecycle) {
        lifecycle::delete(served, name)?;
    }
    match kind(served) {
        ("scheduling.k8s.io", "priorityclasses") if runs(Plugin::Priority) => priority::delete_class(served, name),
        _ => Ok(()),
    }
}

/// Group and plural name.
fn kind(served: &Served) -> (&str, &str) {
    (&served.resource().group, &served.resource().plural)
}

fn stays(object: &Object) -> bool {
    !metadata(object).contains_key("deletionTimestamp")
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
