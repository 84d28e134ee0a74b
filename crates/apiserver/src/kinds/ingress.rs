//! Ingress and IngressClass.

use muster_tree::json;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, cells};
use crate::model::{Fields as _, metadata};
use crate::validation::ingress::{self, CLASS_ANNOTATION};
use crate::validation::meta::Look;

/// Which requests from outside go to which Service.
pub(super) fn kind() -> Row {
    Row {
        metadata: Look::BOTH,
        counts_spec: true,
        prepare: |part, object, old| {
            if part == Part::Main && old.is_none() {
                object.insert("status", json!({"loadBalancer": {}}));
            }
        },
        validate: ingress::validate,
        validate_part: |_, object, old, errors| ingress::validate_status(object, old, errors),
        warnings: |object, old| {
            let annotated = metadata(object).object("annotations").is_some_and(|a| a.contains_key(CLASS_ANNOTATION));
            let named = object.object("spec").is_some_and(|spec| spec.contains_key("ingressClassName"));
            if old.is_some() || !annotated || named {
                return Vec::new();
            }
            vec![format!("annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")]
        },
        part_warnings: |_, object| ingress::status_warnings(object),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("networking.k8s.io", "v1", "Ingress", "ingresses")
                .short(&["ing"])
                .parts(&[Subresource::Status])
                .stored_under("ingress"),
        )
    }
}

static COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    Column::text("Class", "The name of the IngressClass resource that should be used for additional configuration").by(
        |object, _| object.object("spec").and_then(|s| s.maybe_text("ingressClassName")).unwrap_or("<none>").into(),
    ),
    Column::text("Hosts", "Hosts that incoming requests are matched against before the ingress rule")
        .by(|object, _| hosts(object).into()),
    Column::text("Address", "Address is a list containing ingress points for the load-balancer")
        .by(|object, _| addresses(object).into()),
    Column::text("Ports", "Ports of TLS configurations that open").by(|object, _| {
        let secure = object.object("spec").is_some_and(|spec| !spec.list("tls").is_empty());
        if secure { "80, 443" } else { "80" }.into()
    }),
    AGE_COLUMN,
];

fn hosts(ingress: &Object) -> String {
    const MOST: usize = 3;
    let Some(spec) = ingress.object("spec") else { return "*".to_owned() };
    let mut each: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in spec.items("rules") {
        more |= each.len() == MOST;
        if !more && !rule.text("host").is_empty() {
            each.push(rule.text("host"));
        }
    }
    match (each.join(","), more) {
        (hosts, false) if hosts.is_empty() => "*".to_owned(),
        (hosts, false) => hosts,
        (hosts, true) => format!("{hosts} + {} more...", spec.list("rules").len() - MOST),
    }
}

fn addresses(ingress: &Object) -> String {
    let balancer = ingress.object("status").and_then(|s| s.object("loadBalancer"));
    let points = balancer.into_iter().flat_map(|b| b.items("ingress"));
    let mut each: Vec<&str> =
        points.map(|point| cells::or(point.text("ip"), point.text("hostname"))).filter(|a| !a.is_empty()).collect();
    each.sort_unstable();
    each.dedup();
    each.join(",")
}

/// What does the work of an Ingress.
pub(super) fn class() -> Row {
    Row {
        metadata: Look::BOTH,
        counts_spec: true,
        default: |object| {
            if let Some(parameters) = object.object_mut("spec").and_then(|spec| spec.object_mut("parameters")) {
                parameters.set_if_absent("scope", "Cluster");
            }
        },
        validate: ingress::validate_class,
        columns: &CLASS_COLUMNS,
        ..Row::new(Resource::cluster("networking.k8s.io", "v1", "IngressClass", "ingressclasses"))
    }
}

/// The annotation of the class that Ingresses get that name none.
pub const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

static CLASS_COLUMNS: [Column; 4] = [
    NAME_COLUMN.by(|object, _| cells::name_of_default(object, &[DEFAULT_CLASS_ANNOTATION])),
    Column::text("Controller", "Controller that is responsible for handling this class").at("/spec/controller"),
    Column::text("Parameters", "A reference to a resource with additional parameters").by(|object, _| {
        let Some(parameters) = object.object("spec").and_then(|s| s.object("parameters")) else {
            return "<none>".into();
        };
        let group = parameters.maybe_text("apiGroup").map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", parameters.text("kind"), parameters.text("name")).into()
    }),
    AGE_COLUMN,
];
