//! What a pod's status may say of devices: of claims for them, and of the health of those that containers have.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, complain, name};

use super::status::STATUS;

/// What health a device may have.
const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
/// What is said of a device's health has at most this many bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Statuses of claims are of claims that the pod has.
pub(super) fn validate_claims(status: &Object, spec: &Object, errors: &mut Errors) {
    let list = STATUS.child("resourceClaimStatuses");
    let mut seen = BTreeSet::new();
    for (i, claim) in status.items("resourceClaimStatuses").enumerate() {
        let path = list.index(i);
        let own = claim.text("name");
        if spec.items("resourceClaims").all(|c| c.text("name") != own) {
            errors.push(FieldError::invalid(
                path.child("name"),
                own,
                "must match the name of an entry in `spec.resourceClaims`",
            ));
        }
        if !seen.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
        if let Some(made) = claim.maybe_text("resourceClaimName") {
            complain(made, name::is_dns1123_subdomain(made), &path.child("resourceClaimName"), errors);
        }
    }
}

/// The claim that was made for extended resources is of resources that containers request.
pub(super) fn validate_extended_claim(status: &Object, spec: &Object, errors: &mut Errors) {
    let Some(claim) = status.object("extendedResourceClaimStatus") else { return };
    let path = STATUS.child("extendedResourceClaimStatus");
    let list = path.child("requestMappings");
    if claim.list("requestMappings").is_empty() {
        errors.push(FieldError::required(list, "at least one request mapping is required"));
    }
    let mut seen = BTreeSet::new();
    for (i, mapping) in claim.items("requestMappings").enumerate() {
        let at = list.index(i);
        let [container, resource, request] = FIELDS.map(|field| mapping.text(field));
        let mut containers = spec.items("containers").chain(spec.items("initContainers"));
        match containers.find(|c| c.text("name") == container) {
            Some(found) if found.part("resources").part("requests").contains_key(resource) => {}
            Some(_) => errors.push(FieldError::invalid(
                at.child("resourceName"),
                resource,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            )),
            None => errors.push(FieldError::invalid(
                at.child("containerName"),
                container,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            )),
        }
        // The reference does not say of which mapping.
        complain(request, name::is_dns1123_label(request), &path.child("requestName"), errors);
        if !seen.insert([container, resource, request]) {
            errors.extend(FIELDS.map(|field| FieldError::duplicate(at.child(field), mapping.text(field))));
        }
    }
    match claim.text("resourceClaimName") {
        "" => errors.push(FieldError::required(path.child("resourceClaimName"), "")),
        made => complain(made, name::is_dns1123_subdomain(made), &path.child("resourceClaimName"), errors),
    }
}

/// What makes a mapping of a request the only one of its kind.
const FIELDS: [&str; 3] = ["containerName", "resourceName", "requestName"];

/// The health that is told of is that of devices which the container asked for; ephemeral containers have none.
pub(super) fn validate_health(
    status: &Object,
    spec: &Object,
    field: &str,
    containers: Option<&str>,
    errors: &mut Errors,
) {
    let list = STATUS.child(field);
    for (i, of_container) in status.items(field).enumerate() {
        let path = list.index(i);
        let path = path.child("allocatedResourcesStatus");
        let Some(containers) = containers else {
            if !of_container.list("allocatedResourcesStatus").is_empty() {
                errors.push(FieldError::forbidden(path, "must not be specified in container status"));
            }
            continue;
        };
        let container = spec.items(containers).find(|c| c.text("name") == of_container.text("name"));
        for (j, resource) in of_container.items("allocatedResourcesStatus").enumerate() {
            let path = path.index(j);
            if let Some(why) = container.and_then(|container| not_asked_for(container, resource.text("name"))) {
                errors.push(FieldError::invalid(path.child("name"), resource.text("name"), why));
            }
            let list = path.child("resources");
            let mut seen = BTreeSet::new();
            for (k, device) in resource.items("resources").enumerate() {
                let path = list.index(k);
                let (health, id) = (device.text("health"), device.text("resourceID"));
                if !HEALTH.contains(&health) {
                    errors.push(FieldError::not_supported(path.child("health"), health, &HEALTH));
                }
                match device.maybe_text("message") {
                    Some("") => {
                        errors.push(FieldError::required(path.child("message"), "must be non-empty if specified"));
                    }
                    Some(text) if text.len() > LONGEST_MESSAGE => {
                        errors.push(FieldError::too_long(path.child("message"), LONGEST_MESSAGE));
                    }
                    _ => {}
                }
                if !seen.insert(id) {
                    errors.push(FieldError::duplicate(path.child("resourceID"), id));
                }
            }
        }
    }
}

/// What is said of a resource or a claim that the container does not ask for.
fn not_asked_for(container: &Object, name: &str) -> Option<&'static str> {
    let resources = container.part("resources");
    if !name.starts_with("claim:") {
        let asked = resources.part("requests").contains_key(name);
        return (!asked).then_some("must match one of the container's resource requests");
    }
    let asked = resources.items("claims").any(|claim| match claim.text("request") {
        "" => name == format!("claim:{}", claim.text("name")),
        request => name == format!("claim:{}/{request}", claim.text("name")),
    });
    (!asked).then_some(
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
    )
}
