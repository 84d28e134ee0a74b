//! NamespaceLifecycle: nothing is created where there is no namespace, or in one that goes (API-20).

use super::Write;
use super::plugins::Plugin;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::{Registry, Served};
use crate::status::{ApiError, GroupResource};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn create(write: &Write<'_>, object: &Object) -> Result<(), ApiError> {
    let Write { registry, served, live, .. } = *write;
    if live.is_some() || !served.resource().namespaced || !registry.settings.plugins.run(Plugin::NamespaceLifecycle) {
        return Ok(());
    }
    let meta = metadata(object);
    create_in(registry, served, meta.text("namespace"), super::name_of(object))
}

pub(super) fn create_in(registry: &Registry, served: &Served, namespace: &str, name: &str) -> Result<(), ApiError> {
    let Some(namespaces) = registry.find("", "v1", "namespaces") else { return Ok(()) };
    let Some(found) = registry.storage.get(namespaces.id, "", namespace) else {
        return Err(ApiError::not_found(GroupResource { group: "", resource: "namespaces" }, namespace));
    };
    // The phase is among the values that namespaces are selected by.
    let terminating = match namespaces.resource().field_labels.iter().position(|label| *label == "status.phase") {
        Some(index) => found.field(index) == "Terminating",
        None => found.object().object("status").is_some_and(|s| s.text("phase") == "Terminating"),
    };
    if !terminating {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Err(ApiError::forbidden(served.group_resource(), name, &why).with_cause(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    ))
}

pub(super) fn delete(served: &Served, name: &str) -> Result<(), ApiError> {
    let resource = served.resource();
    if resource.group.is_empty() && resource.plural == "namespaces" && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(served.group_resource(), name, "this namespace may not be deleted"));
    }
    Ok(())
}
