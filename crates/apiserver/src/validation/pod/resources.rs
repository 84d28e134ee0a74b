//! Requests and limits.

use std::collections::BTreeMap;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::pod::aggregate;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, NEGATIVE, Path, complain, name};
use muster_schema::quantity::Quantity;

use super::options::Options;
use super::{Context, claims, every_container};

/// Checks the requests and limits of a container.
pub(super) fn validate_container(
    resources: &Object,
    spec: &Object,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    validate(resources, validate_container_resource_name, spec, options, path, errors);
}

/// Checks what a pod of a runtime takes beside its containers, as if it were limits.
pub(in crate::validation) fn validate_overhead(overhead: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    let Some(overhead) = overhead else { return };
    let limits = Object::from_iter([("limits".to_owned(), Value::Object(overhead.clone()))]);
    validate_container(&limits, &Object::new(), &Options::for_pod(None), path, errors);
}

/// Checks requests and limits of the pod as a whole.
pub(super) fn validate_pod_level(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Some(resources) = context.spec.object("resources") else { return };
    let path = path.child("resources");
    if context.os == Some("windows") {
        errors.push(FieldError::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources.contains_key("claims") {
        errors.push(FieldError::forbidden(path.child("claims"), "claims may not be set for Resources at pod-level"));
    }
    validate(resources, validate_pod_resource_name, context.spec, context.options, &path, errors);
    let of = |list: &str, name: &str| resources.object(list).and_then(|l| l.maybe_text(name));
    for (name, total) in aggregate(context.spec, "requests") {
        if let Some(own) = of("requests", &name).filter(|own| total.compare(&Quantity::of(own)).is_gt()) {
            errors.push(FieldError::invalid(
                path.child("requests").key(&name),
                own,
                format!("must be greater than or equal to aggregate container requests of {total}"),
            ));
        }
    }
    for (name, total) in aggregate(context.spec, "limits") {
        if !is_huge_page_resource(&name) {
            continue;
        }
        if let Some(own) = of("limits", &name).filter(|own| total.compare(&Quantity::of(own)).is_gt()) {
            errors.push(FieldError::invalid(
                path.child("limits").key(&name),
                own,
                format!("must be greater than or equal to aggregate container limits of {total}"),
            ));
        }
    }
    let containers = path.child("containers");
    for (i, container) in context.spec.items("containers").enumerate() {
        let Some(own) = container.object("resources") else { continue };
        for (name, limit) in own.pairs("limits") {
            let Some(most) = of("limits", name) else { continue };
            if Quantity::of(limit).compare(&Quantity::of(most)).is_gt() {
                errors.push(FieldError::invalid(
                    containers.index(i).key(name).child("limits"),
                    limit,
                    format!("must be less than or equal to pod limits of {most}"),
                ));
            }
        }
    }
}

fn validate(
    resources: &Object,
    check_name: fn(&str, &Path<'_>, &mut Errors),
    spec: &Object,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if resources.is_empty() {
        return;
    }
    let limits = resources.object("limits");
    let (limit_path, request_path) = (path.child("limits"), path.child("requests"));
    let (mut compute, mut huge) = (false, false);
    for (list, list_path) in [("limits", &limit_path), ("requests", &request_path)] {
        for (resource, quantity) in resources.pairs(list) {
            let at = list_path.key(resource);
            check_name(resource, &at, errors);
            let parsed = Quantity::of(quantity);
            check_quantity(&parsed, quantity, is_integer_resource(resource), &at, errors);
            if list == "requests" {
                let limit = limits.and_then(|l| l.maybe_text(resource));
                within_limit(resource, &parsed, quantity, limit, &limit_path, &request_path, errors);
            }
            if is_huge_page_resource(resource) {
                huge = true;
                if !options.indivisible_huge_pages && !whole_pages(resource, &parsed) {
                    errors.push(FieldError::invalid(
                        at,
                        quantity,
                        format!("{quantity} is not positive integer multiple of {resource}"),
                    ));
                }
            }
            compute |= matches!(resource, "cpu" | "memory");
        }
    }
    if huge && !compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claims::validate_used_claims(resources, spec, &path.child("claims"), errors);
}

/// A request is at most the limit, and exactly it for what cannot be overcommitted.
fn within_limit(
    resource: &str,
    request: &Quantity,
    text: &str,
    limit: Option<&str>,
    limit_path: &Path<'_>,
    request_path: &Path<'_>,
    errors: &mut Errors,
) {
    let overcommit = is_native_resource(resource) && !is_huge_page_resource(resource);
    match limit {
        None if overcommit => {}
        None => errors.push(FieldError::required(limit_path, "Limit must be set for non overcommitable resources")),
        Some(limit) => {
            let order = request.compare(&Quantity::of(limit));
            if order.is_ne() && !overcommit {
                errors.push(FieldError::invalid(
                    request_path,
                    text,
                    format!("must be equal to {resource} limit of {limit}"),
                ));
            } else if order.is_gt() {
                errors.push(FieldError::invalid(
                    request_path,
                    text,
                    format!("must be less than or equal to {resource} limit of {limit}"),
                ));
            }
        }
    }
}

/// Checks a quantity of a resource: not negative, and whole where the resource is counted.
pub fn validate_quantity_value(quantity: &str, integer: bool, path: &Path<'_>, errors: &mut Errors) {
    check_quantity(&Quantity::of(quantity), quantity, integer, path, errors);
}

fn check_quantity(parsed: &Quantity, text: &str, integer: bool, path: &Path<'_>, errors: &mut Errors) {
    if parsed.is_negative() {
        errors.push(FieldError::invalid(path, text, NEGATIVE));
    }
    if integer && !parsed.is_integer() {
        errors.push(FieldError::invalid(path, text, "must be an integer"));
    }
}

/// Checks the name of a resource as such.
pub fn validate_resource_name(resource: &str, path: &Path<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    complain(resource, name::is_qualified_name(resource), path, errors);
    if errors.len() == before && !resource.contains('/') && !is_standard_resource(resource) {
        errors.push(FieldError::invalid(path, resource, "must be a standard resource type or fully qualified"));
    }
    errors.len() == before
}

/// Checks the name of a resource that a container asks for.
pub fn validate_container_resource_name(resource: &str, path: &Path<'_>, errors: &mut Errors) {
    // By far the most.
    if matches!(resource, "cpu" | "memory" | "ephemeral-storage") {
        return;
    }
    validate_resource_name(resource, path, errors);
    if !resource.contains('/') {
        if !is_huge_page_resource(resource) {
            errors.push(FieldError::invalid(path, resource, "must be a standard resource for containers"));
        }
    } else if !is_native_resource(resource) && !is_extended_resource(resource) {
        errors.push(FieldError::invalid(path, resource, "doesn't follow extended resource name standard"));
    }
}

fn validate_pod_resource_name(resource: &str, path: &Path<'_>, errors: &mut Errors) {
    if validate_resource_name(resource, path, errors)
        && !matches!(resource, "cpu" | "memory")
        && !is_huge_page_resource(resource)
    {
        errors.push(FieldError::not_supported(path, resource, &["cpu", "hugepages-", "memory"]));
    }
}

/// Whether the resource is one that Kubernetes itself knows, in pods or in quotas.
fn is_standard_resource(resource: &str) -> bool {
    const STANDARD: [&str; 20] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ];
    STANDARD.contains(&resource) || is_huge_page_resource(resource) || resource.starts_with("requests.hugepages-")
}

/// Whether the resource is counted in whole numbers.
#[must_use]
pub fn is_integer_resource(resource: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&resource) || is_extended_resource(resource)
}

/// Whether the resource is of a domain of its own, such as `example.com/gpu`.
#[must_use]
pub fn is_extended_resource(resource: &str) -> bool {
    !is_native_resource(resource)
        && !resource.starts_with("requests.")
        && name::is_qualified_name(&format!("requests.{resource}")).is_empty()
}

/// Whether the resource is Kubernetes' own.
#[must_use]
pub fn is_native_resource(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Whether the resource is a size of huge pages.
#[must_use]
pub fn is_huge_page_resource(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Whether the quantity is a whole number of pages of the size that the resource names.
fn whole_pages(resource: &str, quantity: &Quantity) -> bool {
    let Some(Ok(size)) = resource.strip_prefix("hugepages-").map(Quantity::parse) else { return false };
    size.is_positive() && size.is_integer() && quantity.value() % size.value() == 0
}

/// Whether a stored spec has huge pages that are no whole number of pages.
pub(super) fn has_indivisible_huge_pages(spec: &Object) -> bool {
    let mut found = false;
    every_container(spec, &Path::new("spec"), |container, _| {
        let Some(resources) = container.object("resources") else { return };
        let lists: BTreeMap<&str, &str> = resources.pairs("limits").chain(resources.pairs("requests")).collect();
        found |= lists.iter().any(|(name, q)| is_huge_page_resource(name) && !whole_pages(name, &Quantity::of(q)));
    });
    found
}
