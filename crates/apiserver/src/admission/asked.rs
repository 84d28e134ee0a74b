//! The admission of one request: the plug-ins, and the webhooks and policies that are configured.
//!
//! An ordinary write, where nothing is configured, meets the plug-ins alone and never waits.

use std::sync::Arc;

use futures::FutureExt as _;
use muster_tree::{Value, json};
use tokio::time::Instant;

use super::attributes::{Attributes, Operation, Seen};
use super::chain::Chain;
use super::configuration::Configuration;
use super::plugins::Plugin;
use super::reinvocation::Memory;
use super::steps::{self, Write};
use super::topology;
use super::written::Form;
use crate::cel::Authorizer;
use crate::model::{Fields as _, Model, Object, Resource, Subresource, metadata};
use crate::registry::{Registry, Served, match_namespace};
use crate::schema;
use crate::status::ApiError;
use crate::storage::Entry;

/// The admission of a request's writes.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a>(Option<&'a Asked<'a>>);

/// What webhooks and policies are told of a request.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The webhooks and policies.
    pub configuration: Arc<Configuration>,
    /// Who asks, as `userInfo`.
    pub user: Value,
    /// What that one may do.
    pub authorizer: &'a dyn Authorizer,
    /// The namespace in the URL; may be empty.
    pub namespace: &'a str,
    /// The name in the URL; may be empty.
    pub name: &'a str,
    /// The subresource.
    pub subresource: Option<Subresource>,
    /// The options of the request, without their kind.
    pub options: Object,
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// When the client has waited long enough.
    pub deadline: Instant,
}

/// Does a write that asks nobody ([`Admission::OWN`]), which therefore never waits.
///
/// # Panics
/// If it waits.
pub fn at_once<T>(write: impl Future<Output = T>) -> T {
    write.now_or_never().expect("a write that asks nobody does not wait")
}

impl Admission<'static> {
    /// That of the server's own writes: nobody is asked.
    pub const OWN: Self = Self(None);
}

impl<'a> Admission<'a> {
    /// That of a request; `None` where nothing is configured.
    #[must_use]
    pub fn new(asked: Option<&'a Asked<'a>>) -> Self {
        Self(asked)
    }

    /// Admits what is written, and completes it.
    ///
    /// # Errors
    /// 404 for a missing namespace; what a plug-in or a webhook has against it.
    pub async fn complete(
        &self,
        write: &Write<'_>,
        object: &mut Object,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        super::lifecycle::create(write, object)?;
        steps::complete(write, object)?;
        let Some(asked) = self.0 else { return Ok(()) };
        let name = metadata(write.live.unwrap_or(object)).text("name").to_owned();
        asked.chain_of_write(write, &name).change(object, warnings, |object| steps::complete(write, object)).await?;
        match_namespace(write.served, object, asked.namespace)
    }

    /// Admits what is written as it will be stored; `generated` says that its name was.
    ///
    /// # Errors
    /// What a plug-in, a policy or a webhook has against it.
    pub async fn validate(
        &self,
        write: &Write<'_>,
        object: &Object,
        generated: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        steps::check(write, object, warnings)?;
        let Some(asked) = self.0 else { return Ok(()) };
        let mut chain = asked.chain_of_write(write, metadata(object).text("name"));
        if generated {
            // Nobody knew its name when the request came.
            chain.attributes.namespace = asked.namespace.to_owned();
        }
        chain.validate(Some(object), warnings).await
    }

    /// Admits the deletion of an object; `option` is one of the request's options that the kind has set.
    ///
    /// # Errors
    /// What a plug-in, a policy or a webhook has against it.
    pub async fn delete(
        &self,
        registry: &Registry,
        served: &Served,
        entry: &Entry,
        option: Option<(&str, Value)>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        super::delete(registry, served, &entry.name)?;
        let Some(asked) = self.0 else { return Ok(()) };
        // As the request's version has it.
        let live = served.live(entry)?;
        // Of many that are deleted at once none is named, and each has the options of all.
        let mut chain = asked.chain(registry, Operation::Delete, served, Some(&live), "");
        if let (Some((name, value)), Value::Object(options)) = (option, &mut chain.attributes.options)
            && !asked.name.is_empty()
        {
            options.insert(name.to_owned(), value);
        }
        chain.mutate(&mut Memory::default(), None, warnings).await?;
        chain.validate(None, warnings).await
    }

    /// Admits what is sent to a subresource with a type of its own, or to a kind that is not stored, and completes it;
    /// `operation` is what is done with it. Who may only look at it is asked once `check` has nothing against it.
    ///
    /// # Errors
    /// What a policy, a webhook or `check` has against it.
    pub async fn send(
        &self,
        registry: &Registry,
        operation: Operation,
        (resource, model): (&Resource, Option<Model<'static>>),
        object: &mut Object,
        warnings: &mut Vec<String>,
        check: impl Fn(&Object) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let labels = registry.settings.plugins.run(Plugin::PodTopologyLabels)
            && model == Some(Model::BINDING)
            && resource.plural == "pods";
        let plug_ins = |object: &mut Object| {
            if labels {
                topology::bind(registry, object);
            }
            Ok(())
        };
        plug_ins(object)?;
        let Some(asked) = self.0 else { return check(object) };
        let name =
            if operation == Operation::Create { metadata(object).text("name").to_owned() } else { String::new() };
        let attributes = asked.attributes(operation, Seen::of(resource, model), model, &name);
        let chain = asked.chain_of(registry, attributes, Form::Sent, None);
        chain.change(object, warnings, plug_ins).await?;
        check(object)?;
        chain.validate(Some(object), warnings).await
    }
}

impl<'a> Asked<'a> {
    fn chain_of_write<'c>(&'c self, write: &Write<'c>, name: &str) -> Chain<'c> {
        let operation = if write.live.is_some() { Operation::Update } else { Operation::Create };
        self.chain(write.registry, operation, write.served, write.live, name)
    }

    fn chain<'c>(
        &'c self,
        registry: &'c Registry,
        operation: Operation,
        served: &'c Served,
        old: Option<&'c Object>,
        name: &str,
    ) -> Chain<'c> {
        let model = self.subresource.and_then(Subresource::model);
        let form = match self.subresource {
            Some(Subresource::Scale) => Form::Scale(served),
            _ => Form::Stored(served),
        };
        let attributes = self.attributes(operation, Seen::of(served.resource(), model), model, name);
        self.chain_of(registry, attributes, form, old)
    }

    fn chain_of<'c>(
        &'c self,
        registry: &'c Registry,
        attributes: Attributes<'c>,
        form: Form<'c>,
        old: Option<&'c Object>,
    ) -> Chain<'c> {
        Chain {
            registry,
            configuration: &self.configuration,
            attributes,
            form,
            old,
            authorizer: self.authorizer,
            deadline: self.deadline,
        }
    }

    /// What is asked; `name` is the object's, where the URL has none.
    fn attributes(
        &self,
        operation: Operation,
        seen: Seen,
        model: Option<Model<'static>>,
        name: &str,
    ) -> Attributes<'_> {
        let name = if self.name.is_empty() { name } else { self.name };
        let is_namespace = seen.plural == "namespaces" && seen.group.is_empty();
        let kind = match operation {
            Operation::Create => Some("CreateOptions"),
            Operation::Update => Some("UpdateOptions"),
            Operation::Delete => Some("DeleteOptions"),
            Operation::Connect => None,
        };
        let options = kind.map(|kind| {
            let mut options = Object::new();
            options.insert("kind", json!(kind));
            options.insert("apiVersion", json!("meta.k8s.io/v1"));
            options.extend(self.options.iter().map(|(key, value)| (key.clone(), value.clone())));
            Value::Object(options)
        });
        Attributes {
            operation,
            seen,
            model,
            subresource: self.subresource.map_or("", Subresource::name),
            // A namespace is in itself.
            namespace: if is_namespace { name.to_owned() } else { self.namespace.to_owned() },
            name: name.to_owned(),
            user: &self.user,
            options: options.unwrap_or_default(),
            dry_run: self.dry_run,
        }
    }
}

impl<'a> Chain<'a> {
    /// Has policies and webhooks change an object. If one does, the plug-ins look at it again, and then those that want
    /// to.
    async fn change(
        &self,
        object: &mut Object,
        warnings: &mut Vec<String>,
        plug_ins: impl Fn(&mut Object) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let managed = metadata(object).get("managedFields").cloned();
        let (mut policies, mut webhooks) = (Memory::default(), Memory::default());
        self.mutate_by_policies(&mut policies, object)?;
        self.mutate(&mut webhooks, Some(object), warnings).await?;
        if policies.changed || webhooks.changed {
            plug_ins(object)?;
            self.mutate_by_policies(&mut policies, object)?;
            self.mutate(&mut webhooks, Some(object), warnings).await?;
        }
        if let Some(why) = schema::managed::complaint(object) {
            warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
            ));
            match managed {
                Some(managed) => drop(object.object_or_new("metadata").insert("managedFields", managed)),
                None => drop(object.object_or_new("metadata").remove("managedFields")),
            }
        }
        Ok(())
    }
}
