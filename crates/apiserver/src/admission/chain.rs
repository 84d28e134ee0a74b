//! The configured part of admission: webhooks and policies, in the reference's order.
//!
//! ```text
//!   plug-ins -> mutating policies -> mutating webhooks --(one changed the object)--> plug-ins -> those to see it again
//!   ... the kind's own checks ... -> policies -> validating webhooks, all at once -> stored
//! ```

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_tree::Value;
use tokio::time::Instant;

use super::attributes::Attributes;
use super::configuration::Configuration;
use super::policy::Request;
use super::reinvocation::Memory;
use super::review::Response;
use super::webhook::Webhook;
use super::written::{Form, View};
use super::{mutating, validating};
use crate::cel::Authorizer;
use crate::codec::json_patch::{self, Touched};
use crate::field::{go_quote, json_word};
use crate::kinds::admissionregistration::GROUP;
use crate::model::Object;
use crate::registry::Registry;
use crate::schema;
use crate::status::ApiError;

/// What is asked about one write.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    pub(super) registry: &'a Registry,
    pub(super) configuration: &'a Configuration,
    pub(super) attributes: Attributes<'a>,
    pub(super) form: Form<'a>,
    pub(super) old: Option<&'a Object>,
    pub(super) authorizer: &'a dyn Authorizer,
    /// When the client has waited long enough.
    pub(super) deadline: Instant,
}

impl<'a> Chain<'a> {
    /// Whether webhooks are asked at all: they cannot be kept from changing themselves.
    fn is_exempt_from_webhooks(&self) -> bool {
        let (group, _, kind) = &self.attributes.seen.kind;
        group == GROUP
            && ["WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding"]
                .iter()
                .any(|end| kind.ends_with(end))
    }

    /// Whether policies are: reviews of access are needed to mend them.
    fn is_exempt_from_policies(&self) -> bool {
        let seen = &self.attributes.seen;
        match &*seen.group {
            GROUP => seen.plural.contains("admissionpolic"),
            "authentication.k8s.io" | "authorization.k8s.io" => true,
            _ => false,
        }
    }

    fn view(&self, object: Option<&Object>) -> View<'_> {
        View::new(self.registry, self.form, object, self.old)
    }

    fn request(&self) -> Request<'_> {
        Request { registry: self.registry, attributes: &self.attributes, authorizer: self.authorizer }
    }

    /// Has mutating policies change the object.
    ///
    /// # Errors
    /// What failed, of those whose failures count.
    pub(super) fn mutate_by_policies(&self, memory: &mut Memory, object: &mut Object) -> Result<(), ApiError> {
        if self.is_exempt_from_policies() || self.configuration.mutators.is_empty() {
            return Ok(());
        }
        let view = self.view(Some(object));
        mutating::mutate(&self.configuration.mutators, &self.request(), memory, object, view)
    }

    /// Asks mutating webhooks, one after the other. The object is absent in a deletion.
    ///
    /// # Errors
    /// What one of them has against the write.
    pub(super) async fn mutate(
        &self,
        memory: &mut Memory,
        mut object: Option<&mut Object>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        if self.is_exempt_from_webhooks() {
            return Ok(());
        }
        memory.begin(object.as_deref());
        let mut view = self.view(object.as_deref());
        for hook in &self.configuration.mutating {
            let Some(seen) = hook.is_meant(self.registry, &self.attributes, &mut view, self.authorizer)? else {
                continue;
            };
            if memory.skips(&hook.id) {
                continue;
            }
            // The reference says so twice.
            let twice = |why: String| ApiError::internal(&ApiError::internal(&why).message);
            let shown = view.of(&seen).map_err(twice)?;
            let response = hook.ask(self.registry, &self.attributes, &seen, shown, true, self.deadline).await;
            if let Some(response) = response.heard(warnings)?
                && let Some(operations) = operations(hook, &response, self.deadline)?
            {
                let Some(told) = view.known(&seen).0 else {
                    let name = go_quote(&hook.name);
                    return Err(ApiError::internal(&format!(
                        "admission webhook {name} attempted to modify the object, which is not supported for this operation"
                    )));
                };
                let mut patched = Value::Object(told.clone());
                json_patch::apply(&mut patched, &operations, &mut Touched::default())
                    .map_err(|why| ApiError::internal(&why.0))?;
                if view.change(self.form.read(self.registry, &seen, &patched)?) {
                    memory.change();
                }
            }
            if hook.is_reinvoked {
                memory.remember(hook.id.clone());
            }
        }
        let mutated = view.finish().map_err(ApiError::plain)?;
        if let (Some(object), Some(mutated)) = (object.as_deref_mut(), mutated) {
            *object = mutated;
        }
        memory.end(object.as_deref());
        Ok(())
    }

    /// Asks policies, then validating webhooks, all at once.
    ///
    /// # Errors
    /// What the first of them has against the write.
    pub(super) async fn validate(&self, object: Option<&Object>, warnings: &mut Vec<String>) -> Result<(), ApiError> {
        let mut view = self.view(object);
        if !self.is_exempt_from_policies() {
            validating::validate(&self.configuration.policies, &self.request(), &mut view, object, warnings)?;
        }
        if self.is_exempt_from_webhooks() {
            return Ok(());
        }
        let mut meant = Vec::new();
        for hook in &self.configuration.validating {
            if let Some(seen) = hook.is_meant(self.registry, &self.attributes, &mut view, self.authorizer)? {
                // Before any is asked: what converts takes none of their time.
                view.of(&seen).map_err(|why| ApiError::internal(&why))?;
                meant.push((hook, seen));
            }
        }
        let asked = meant.iter().map(|(hook, seen)| {
            hook.ask(self.registry, &self.attributes, seen, view.known(seen), false, self.deadline)
        });
        let mut answers: FuturesUnordered<_> = asked.collect();
        let mut refused = Ok(());
        while let Some(answer) = answers.next().await {
            // All are heard, and the first that refused is told.
            refused = refused.and(answer.heard(warnings).map(drop));
        }
        refused
    }
}

/// The operations by which a webhook wants to change the object; `None` where it does not.
fn operations(hook: &Webhook, response: &Response, deadline: Instant) -> Result<Option<Vec<Value>>, ApiError> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let operations = match schema::read_json(&response.patch) {
        Ok(Value::Array(operations)) if operations.iter().all(Value::is_object) => operations,
        Ok(Value::Null) => return Ok(None),
        Ok(other) => {
            let (found, kind) = match other.as_array().and_then(|all| all.iter().find(|one| !one.is_object())) {
                Some(element) => (json_word(element), "Operation"),
                None => (json_word(&other), "Patch"),
            };
            let why = format!(
                "received undecodable patch in webhook response: json: cannot unmarshal {found} into Go value of type jsonpatch.{kind}"
            );
            return hook.failed(&why, deadline).map(|()| None);
        }
        Err(why) => {
            let why = format!("received undecodable patch in webhook response: {why}");
            return hook.failed(&why, deadline).map(|()| None);
        }
    };
    if operations.is_empty() {
        return Ok(None);
    }
    if response.patch_type != "JSONPatch" {
        let why = format!("unsupported patch type {}", go_quote(&response.patch_type));
        return hook.failed(&why, deadline).map(|()| None);
    }
    Ok(Some(operations.into()))
}
