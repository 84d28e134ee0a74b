//! The kinds of `admissionregistration.k8s.io`: what stands between a write and its storage, as users configure it.
//!
//! What they do is [`crate::admission`]'s; here is how they are stored and shown.

mod expressions;

use muster_tree::{Value, json};

use super::{Row, keep_metadata};
use crate::model::fields::set_generation;
use crate::model::{AGE_COLUMN, Column, Fields as _, NAME_COLUMN, Object, Part, Resource, Subresource, metadata};
use crate::validation::{Errors, Path, admissionpolicy, conditions, meta, selector, webhook};
use expressions::Compiled;

/// Their API group.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Names with this end belong to configurations that the reference reads from files.
const STATIC: &str = ".static.k8s.io";

/// All of them, in the order of discovery.
pub(super) fn kinds() -> [Row; 6] {
    [
        Row {
            default: default_policy,
            validate: |object, old, errors| admissionpolicy::validate_mutating(object, old, &Compiled, errors),
            columns: &MUTATING_POLICY,
            counts_spec: true,
            ..row("MutatingAdmissionPolicy", "mutatingadmissionpolicies", &[])
        },
        Row {
            default: default_binding,
            validate: |object, _, errors| admissionpolicy::validate_mutating_binding(object, errors),
            columns: &BINDING,
            counts_spec: true,
            ..row("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", &[])
        },
        Row {
            default: |object| object.items_mut("webhooks").for_each(|hook| default_webhook(hook, true)),
            prepare: count_webhooks,
            validate: validate_webhooks,
            columns: &WEBHOOKS,
            ..row("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[])
        },
        Row {
            default: default_policy,
            validate: |object, old, errors| admissionpolicy::validate_validating(object, old, &Compiled, errors),
            prepare: |part, object, old| {
                if let (true, Some(old)) = (part != Part::Main, old) {
                    keep_metadata(object, old);
                }
            },
            validate_part: |_, object, _, errors| validate_status(object, errors),
            columns: &VALIDATING_POLICY,
            counts_spec: true,
            ..row("ValidatingAdmissionPolicy", "validatingadmissionpolicies", &[Subresource::Status])
        },
        Row {
            default: default_binding,
            validate: |object, _, errors| admissionpolicy::validate_validating_binding(object, errors),
            columns: &BINDING,
            counts_spec: true,
            ..row("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", &[])
        },
        Row {
            default: |object| object.items_mut("webhooks").for_each(|hook| default_webhook(hook, false)),
            prepare: count_webhooks,
            validate: validate_webhooks,
            columns: &WEBHOOKS,
            ..row("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[])
        },
    ]
}

fn row(kind: &'static str, plural: &'static str, parts: &[Subresource]) -> Row {
    let resource = Resource::cluster(GROUP, "v1", kind, plural).parts(parts).category("api-extensions");
    Row {
        metadata: meta::Look::WHOLE.lenient(),
        warnings: |object, _| warn_of_static_name(object),
        ..Row::new(resource.conditional_update())
    }
}

fn validate_webhooks(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    webhook::validate(object, old, &Compiled, errors);
}

fn validate_status(object: &Object, errors: &mut Errors) {
    admissionpolicy::validate_status(object, errors);
    if let Some(status) = object.object("status") {
        conditions::validate(status, &Path::new("status"), errors);
    }
}

fn warn_of_static_name(object: &Object) -> Vec<String> {
    if !metadata(object).text("name").ends_with(STATIC) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{STATIC}\" are reserved for static manifest-based configurations and cannot be managed via the API"
    )]
}

/// The generation of a webhook configuration counts changes of its webhooks: it has no spec.
fn count_webhooks(_part: Part, object: &mut Object, old: Option<&Object>) {
    let Some(old) = old else { return set_generation(object, 1) };
    if object.get("webhooks") != old.get("webhooks") {
        set_generation(object, metadata(old).int("generation") + 1);
    }
}

fn default_webhook(hook: &mut Object, mutates: bool) {
    hook.set_if_absent("failurePolicy", "Fail");
    hook.set_if_absent("timeoutSeconds", 10);
    default_selectors(hook);
    if mutates {
        hook.set_if_absent("reinvocationPolicy", "Never");
    }
    if let Some(service) = hook.object_mut("clientConfig").and_then(|config| config.object_mut("service")) {
        service.set_if_absent("port", 443);
    }
    hook.items_mut("rules").for_each(default_rule);
}

fn default_policy(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_absent("failurePolicy", "Fail");
    if let Some(constraints) = spec.object_mut("matchConstraints") {
        default_match_resources(constraints);
    }
}

fn default_binding(object: &mut Object) {
    if let Some(resources) = object.object_or_new("spec").object_mut("matchResources") {
        default_match_resources(resources);
    }
}

fn default_match_resources(resources: &mut Object) {
    default_selectors(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        resources.items_mut(list).for_each(default_rule);
    }
}

fn default_selectors(parent: &mut Object) {
    parent.set_if_absent("matchPolicy", "Equivalent");
    parent.set_if_absent("namespaceSelector", json!({}));
    parent.set_if_absent("objectSelector", json!({}));
}

fn default_rule(rule: &mut Object) {
    rule.set_if_absent("scope", "*");
}

static WEBHOOKS: [Column; 3] = [
    NAME_COLUMN,
    Column::number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration")
        .count("/webhooks"),
    AGE_COLUMN,
];

static VALIDATING_POLICY: [Column; 4] = [
    NAME_COLUMN,
    Column::number("Validations", "Validations indicates the number of validation rules defined in this configuration")
        .count("/spec/validations"),
    PARAM_KIND,
    AGE_COLUMN,
];

static MUTATING_POLICY: [Column; 4] = [
    NAME_COLUMN,
    Column::number("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")
        .count("/spec/mutations"),
    PARAM_KIND,
    AGE_COLUMN,
];

const PARAM_KIND: Column =
    Column::text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy").by(
        |object, _| match object.object("spec").and_then(|spec| spec.object("paramKind")) {
            Some(kind) => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")).into(),
            None => UNSET.into(),
        },
    );

static BINDING: [Column; 4] = [
    NAME_COLUMN,
    Column::text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to")
        .at("/spec/policyName"),
    Column::text("ParamRef", "ParamRef indicates the param resource which sets the configuration param")
        .by(|object, _| param_ref(object)),
    AGE_COLUMN,
];

/// What a cell shows where there is nothing.
const UNSET: &str = "<unset>";

fn param_ref(object: &Object) -> Value {
    let Some(reference) = object.object("spec").and_then(|spec| spec.object("paramRef")) else { return UNSET.into() };
    match (reference.text("namespace"), reference.text("name")) {
        (_, "") => {
            reference.object("selector").map_or_else(|| UNSET.into(), |selector| selector::go_string(selector).into())
        }
        // Whether the parameters have namespaces is not known here.
        ("", name) => format!("*/{name}").into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}
