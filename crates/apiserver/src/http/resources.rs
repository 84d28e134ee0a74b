//! Requests for objects: from a path and a method to the registry, and back to an answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use muster_tree::Value;
use tokio::time::Instant;

use super::admission::{self, in_time};
use super::body::{Body, Lasting};
use super::negotiate::{self, Offer, Output};
use super::path::ResourcePath;
use super::table::Include;
use super::watch::{Events, Wanted, Watch, failed};
use super::{Shared, durable, logs, respond};
use crate::access::questions::Answers;
use crate::access::{User, tokens};
use crate::admission::{Admission, Asked, Operation};
use crate::codec::{self, Format, Model};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part, Resource, Subresource};
use crate::registry::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::registry::patch::{Patch, PatchType};
use crate::registry::scale::NewScale;
use crate::registry::selection::Selection;
use crate::registry::update::{Update, check_segment};
use crate::registry::{Answer, Served};
use crate::registry::{apply, aside};
use crate::schema::managed;
use crate::status::{ApiError, success};

/// No watch lasts longer than this, whatever it says.
const LONGEST_WATCH: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What a request does, in the words of authorization and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows changes.
    Watch,
    /// Makes a new one.
    Create,
    /// Replaces one.
    Update,
    /// Changes one.
    Patch,
    /// Deletes one.
    Delete,
    /// Deletes many.
    DeleteCollection,
}

impl Verb {
    /// The verb's name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request about a kind that is served, with everything that its handling needs.
pub struct Request<'a> {
    /// The server.
    pub shared: &'a Arc<Shared>,
    /// The kind.
    pub served: &'a Arc<Served>,
    /// Who sent it.
    pub user: &'a Arc<User>,
    /// The path.
    pub path: ResourcePath<'a>,
    /// The method and headers.
    pub parts: &'a Parts,
    /// The query.
    pub query: Query,
    /// The subresource.
    pub subresource: Option<Subresource>,
    /// What is done.
    pub verb: Verb,
}

/// The verb that a method means on a path.
///
/// # Errors
/// 404 for a path that the kind does not have, 405 for a method that the path does not have.
pub fn route(
    served: &Served,
    path: &ResourcePath<'_>,
    method: &Method,
    query: &Query,
) -> Result<(Option<Subresource>, Verb), ApiError> {
    let resource = served.resource();
    let not_allowed = || not_allowed(served, path, method);
    let no_such_part = || match served.kind.custom() {
        // Of a custom kind the object itself is missed, whether it is there or not.
        Some(_) => ApiError::not_found(served.group_resource(), path.name.unwrap_or_default()),
        None => ApiError::no_such_resource(),
    };
    let scoped = match (resource.namespaced, path.namespace) {
        (true, Some(_)) | (false, None) => true,
        // All namespaces: to list and watch only.
        (true, None) if path.name.is_none() => false,
        _ => return Err(ApiError::no_such_resource()),
    };
    if path.watch {
        return match *method {
            Method::GET if path.subresource.is_none() => Ok((None, Verb::Watch)),
            _ if path.subresource.is_some() => Err(no_such_part()),
            _ => Err(not_allowed()),
        };
    }
    if let Some(name) = path.subresource {
        let found = Subresource::named(name).filter(|s| served.has(*s)).ok_or_else(no_such_part)?;
        let verb = match *method {
            Method::GET => Verb::Get,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::POST => Verb::Create,
            Method::DELETE => Verb::Delete,
            _ => return Err(not_allowed()),
        };
        let known = found.verbs().contains(&verb.word());
        return if known { Ok((Some(found), verb)) } else { Err(not_allowed()) };
    }
    let verb = match (path.name.is_some(), method) {
        (false, &Method::GET) if query.flag("watch").unwrap_or(false) => Verb::Watch,
        (false, &Method::GET) => Verb::List,
        (false, &Method::POST) if scoped => Verb::Create,
        (false, &Method::DELETE) if scoped => Verb::DeleteCollection,
        (true, &Method::GET) => Verb::Get,
        (true, &Method::PUT) => Verb::Update,
        (true, &Method::PATCH) => Verb::Patch,
        (true, &Method::DELETE) => Verb::Delete,
        _ => return Err(not_allowed()),
    };
    match verb {
        _ if resource.can(verb.word()) => Ok((None, verb)),
        Verb::Watch if resource.can("list") => {
            let resource = served.group_resource();
            let why = format!("watch is not supported on resources of kind \"{resource}\"");
            Err(ApiError::not_allowed_now(resource, &why))
        }
        _ => Err(not_allowed()),
    }
}

/// 405: a custom kind tells what it cannot do.
fn not_allowed(served: &Served, path: &ResourcePath<'_>, method: &Method) -> ApiError {
    if served.kind.custom().is_none() {
        return ApiError::method_not_allowed();
    }
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if path.name.is_none() => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    };
    let resource = served.group_resource();
    ApiError::not_allowed_now(resource, &format!("{verb} is not supported on resources of kind \"{resource}\""))
}

impl Request<'_> {
    /// Handles the request. An error is answered in the format that was negotiated.
    pub async fn handle(&self, body: &Bytes) -> Response<Body> {
        let produces: &'static [&'static str] = match self.verb {
            Verb::List | Verb::Watch => &negotiate::PRODUCES_STREAMS,
            _ => &negotiate::PRODUCES,
        };
        // A log is text, whatever the client reads; and custom resources have no router of this kind.
        let is_custom = self.served.kind.custom().is_some();
        if self.subresource != Some(Subresource::Log)
            && !is_custom
            && let Err(error) = negotiate::check_route(&self.parts.headers, produces)
        {
            return respond::error(&error, None);
        }
        if let Some(error) = self.refused_media() {
            return respond::refused(&error, &self.parts.headers, &self.query);
        }
        let offer = match self.subresource {
            _ if is_custom => Offer::Custom,
            Some(subresource) if subresource.has_no_table() => Offer::Value,
            _ => Offer::Object,
        };
        let output = match negotiate::output(&self.parts.headers, &self.query, offer) {
            Ok(output) => output,
            Err(_) if self.subresource == Some(Subresource::Log) => {
                Output { format: Format::Json, pretty: false, transform: None }
            }
            Err(error) => return respond::refused(&error, &self.parts.headers, &self.query),
        };
        let mut warnings: Vec<String> = self.served.kind.deprecation().into_iter().map(str::to_owned).collect();
        if self.verb == Verb::Create && self.served.kind.custom().is_some_and(|custom| custom.family().terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            let error = ApiError::not_allowed_now(self.served.group_resource(), why);
            return respond::refused(&error, &self.parts.headers, &self.query);
        }
        let answers = Answers(&self.registry().authorizer, self.user);
        let asked = self.asked(&answers);
        let deadline = asked.as_ref().map(|asked| asked.deadline);
        // Those who read wait for their turn as long as others for all.
        let last = deadline.unwrap_or_else(|| Instant::now() + admission::longest_wait(&self.query));
        let turn = async { Ok(aside::turn(self.served).await) };
        let answer = match in_time(Some(last), pin!(turn)).await {
            Ok(_turn) => in_time(deadline, pin!(self.dispatch(body, output, asked, &mut warnings))).await,
            Err(error) => Err(error),
        };
        if answer.is_ok() && !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Create) {
            self.settle(self.path.name);
        }
        let mut response = answer.unwrap_or_else(|error| respond::refused(&error, &self.parts.headers, &self.query));
        respond::warn(&mut response, &warnings);
        response
    }

    /// Does what follows from a write to definitions, and to what they define. Without a name, of any of them.
    fn settle(&self, name: Option<&str>) {
        let definition = self.served.kind.cleanup().is_some();
        let custom = self.served.kind.custom().is_some_and(|custom| custom.family().terminating);
        if definition || custom {
            self.registry().settle(self.served, name);
        }
    }

    /// Why what a patch is written in is not read here. Custom objects have no strategic merge patch.
    fn refused_media(&self) -> Option<ApiError> {
        const PATCHES: [&str; 3] =
            ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
        let content_type = Some(negotiate::content_type(&self.parts.headers)).filter(|_| self.verb == Verb::Patch)?;
        let is_custom = self.served.kind.custom().is_some();
        match PatchType::of(content_type) {
            None if content_type == apply::CONTENT_TYPE => None,
            None | Some(PatchType::Strategic) if is_custom => Some(ApiError::unsupported_media_type(&PATCHES)),
            None => Some(ApiError::unsupported_media_type_route()),
            Some(_) => None,
        }
    }

    /// What webhooks and policies are told of a write.
    fn asked<'s>(&'s self, answers: &'s Answers<'s>) -> Option<Asked<'s>> {
        if matches!(self.verb, Verb::Get | Verb::List | Verb::Watch) {
            return None;
        }
        // The older way to bind pods names none, and is a resource of its own.
        let subresource = self.subresource.filter(|_| self.path.name.is_some());
        admission::asked(self.registry(), answers, self.user, &self.path, subresource, &self.query)
    }

    async fn dispatch(
        &self,
        body: &Bytes,
        output: Output,
        asked: Option<Asked<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let admission = Admission::new(asked.as_ref());
        // That of an update is looked at when its body has been read.
        if !matches!(self.verb, Verb::List | Verb::Watch | Verb::Update) {
            self.path.name.map_or(Ok(()), check_segment)?;
        }
        match (self.verb, self.subresource) {
            (Verb::Get, Some(Subresource::Log)) => self.log(),
            (Verb::Get, Some(Subresource::Scale)) => {
                let answer = self.registry().scale(self.served, self.namespace(), self.name())?;
                self.object(200, &answer, output)
            }
            (Verb::Get, _) => self.get(output),
            (Verb::List | Verb::Watch, _) => self.list_or_watch(output).await,
            (Verb::Create, None) => self.create(body, output, admission, warnings).await,
            (Verb::Create, Some(_)) => self.create_below(body, output, admission, warnings).await,
            (Verb::Update, _) => self.update(body, output, admission, warnings).await,
            (Verb::Patch, _) => self.patch(body, output, admission, warnings).await,
            (Verb::Delete, _) => self.delete(body, output, asked, warnings).await,
            (Verb::DeleteCollection, _) => self.delete_collection(body, output, asked, warnings).await,
        }
    }

    fn get(&self, output: Output) -> Result<Response<Body>, ApiError> {
        if self.query.flag("export") == Some(true) {
            let message = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(ApiError::bad_request(message));
        }
        let options = ListOptions {
            resource_version: self.query.get("resourceVersion").unwrap_or_default().to_owned(),
            ..ListOptions::default()
        };
        let present = self.registry().storage.version();
        if let Some(version) = options.version()?
            && version > present
        {
            return Err(ApiError::version_too_large(version, present));
        }
        let entry = self.registry().get(self.served, self.namespace(), self.name())?;
        self.object(200, &Answer::Entry(entry), output)
    }

    async fn list_or_watch(&self, output: Output) -> Result<Response<Body>, ApiError> {
        let options = ListOptions::from_query(&self.query, self.path.watch)?;
        if options.watch {
            self.watch(&options, output)
        } else {
            let page = self.registry().list(self.served, self.namespace(), self.path.name, &options)?;
            respond::list(self.shared, self.served, page, output, self.query.get("includeObject")).await
        }
    }

    fn watch(&self, options: &ListOptions, output: Output) -> Result<Response<Body>, ApiError> {
        let mut selection = Selection::parse(self.served, &options.label_selector, &options.field_selector)?;
        if let Some(name) = self.path.name {
            selection.narrow(name)?;
        }
        selection.shard(&options.shard_selector)?;
        let include = Include::parse(self.query.get("includeObject"))?;
        if output.format == Format::Yaml {
            return Err(ApiError::not_acceptable(
                "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            ));
        }
        let namespace = match self.namespace() {
            "" => selection.namespace().unwrap_or_default().to_owned(),
            namespace => namespace.to_owned(),
        };
        let timeout = options
            .timeout
            .map_or_else(
                || self.registry().settings.shortest_watch.mul_f64(1.0 + self.registry().generator.fraction()),
                Duration::from_secs,
            )
            .min(LONGEST_WATCH);
        let protobuf = output.format == Format::Protobuf;
        let body = match self.registry().watch(self.served, &namespace, &selection, options)? {
            Err(error) => Body::stream(failed(&error, protobuf)),
            Ok(start) => {
                let wanted = Wanted {
                    selection,
                    transform: output.transform,
                    include,
                    bookmarks: options.bookmarks,
                    protobuf,
                    timeout,
                };
                let registry = Arc::clone(&self.shared.registry);
                let watch =
                    Watch::new(registry, Arc::clone(self.served), start, wanted, self.shared.stopping.subscribe());
                let counted = self.shared.metrics.watching(self.served);
                Body::stream(counted.around(watch.into_stream()))
            }
        };
        let (content_type, events) = match protobuf {
            true => ("application/vnd.kubernetes.protobuf;stream=watch", Events::Frames),
            false => ("application/json", Events::Lines),
        };
        let mut answer = respond::with_body(200, content_type, body);
        answer.extensions_mut().insert(events);
        answer.extensions_mut().insert(Lasting);
        Ok(answer)
    }

    async fn create(
        &self,
        body: &Bytes,
        output: Output,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let format = negotiate::input(&self.parts.headers)?;
        let options = self.write_options("CreateOptions", false)?;
        let object = self.decode(&self.served.resource().model(), body, format, &options, warnings)?;
        let created = self.registry().create(self.served, self.namespace(), object, &options, admission, warnings);
        let answer = created.await?;
        if let Answer::Entry(entry) = &answer {
            self.settle(Some(&entry.name));
        }
        self.object(201, &answer, output)
    }

    async fn create_below(
        &self,
        body: &Bytes,
        output: Output,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let format = negotiate::input(&self.parts.headers)?;
        let options = self.write_options("CreateOptions", false)?;
        let namespace = self.namespace();
        let model = self.subresource.and_then(Subresource::model).unwrap_or(self.served.resource().model());
        let mut object = codec::decode(&model, body, format, options.field_validation, warnings)?;
        self.match_namespace(&mut object)?;
        if self.subresource == Some(Subresource::Token) {
            tokens::request::default(&mut object);
        }
        let named = metadata(&object).text("name").to_owned();
        if self.path.name.is_none() {
            // A new object has no uid to be told by.
            object.object_or_new("metadata").remove("uid");
        }
        // Where the path names no pod, the body does.
        let name = self.path.name.unwrap_or(&named);
        crate::admission::create_below(self.registry(), self.served, namespace, name)?;
        let older = Resource::namespaced("", "v1", "Binding", "bindings");
        let resource = if self.path.name.is_some() { self.served.resource() } else { &older };
        let model = self.subresource.and_then(Subresource::model);
        admission
            .send(self.registry(), Operation::Create, (resource, model), &mut object, warnings, |_| Ok(()))
            .await?;
        if self.subresource == Some(Subresource::Token) {
            let Shared { registry, authenticator, .. } = &**self.shared;
            let (id, now) = (registry.generator.uid(), registry.clock.now());
            managed::update_one_version(Model::TOKEN_REQUEST, None, &mut object, &options.manager, "token", now);
            let answered = tokens::request::answer(
                &authenticator.issuer,
                &**registry,
                (namespace, name),
                object,
                &id,
                now,
                warnings,
            )?;
            return Ok(respond::value(201, &Value::Object(answered), output));
        }
        if self.subresource == Some(Subresource::Binding) {
            self.registry().bind(self.served, namespace, name, &object, &options)?;
        } else {
            self.registry().evict(self.served, namespace, name, &object, &options)?;
        }
        Ok(respond::value(201, &success(None, Some(201)), Output { transform: None, ..output }))
    }

    fn match_namespace(&self, object: &mut Object) -> Result<(), ApiError> {
        let found = metadata(object).text("namespace");
        if !found.is_empty() && found != self.namespace() {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(message));
        }
        object.object_or_new("metadata").insert("namespace", Value::from(self.namespace()));
        Ok(())
    }

    async fn update(
        &self,
        body: &Bytes,
        output: Output,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let options = self.write_options("UpdateOptions", false)?;
        let format = negotiate::input(&self.parts.headers)?;
        if self.subresource == Some(Subresource::Scale) {
            let scale = codec::decode(&Model::SCALE, body, format, options.field_validation, warnings)?;
            let update = self.changing(&options, admission);
            let answer = self.registry().set_scale(self.served, update, NewScale::Whole(&scale), warnings).await?;
            return self.object(200, &answer, output);
        }
        let object = self.decode(&self.served.resource().model(), body, format, &options, warnings)?;
        let update = self.changing(&options, admission);
        let (answer, created) = self.registry().replace(self.served, update, object, warnings).await?;
        self.object(if created { 201 } else { 200 }, &answer, output)
    }

    async fn patch(
        &self,
        body: &Bytes,
        output: Output,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let content_type = negotiate::content_type(&self.parts.headers);
        let applies = content_type == apply::CONTENT_TYPE;
        let options = self.write_options("PatchOptions", applies)?;
        let update = self.changing(&options, admission);
        let scales = self.subresource == Some(Subresource::Scale);
        if applies {
            let (answer, created) = if scales {
                let new = NewScale::Applied(body);
                (self.registry().set_scale(self.served, update, new, warnings).await?, false)
            } else {
                self.registry().apply(self.served, update, body, warnings).await?
            };
            return self.object(if created { 201 } else { 200 }, &answer, output);
        }
        let kind = PatchType::of(content_type).ok_or_else(ApiError::unsupported_media_type_route)?;
        let patch = Patch { kind, body };
        let answer = if scales {
            self.registry().set_scale(self.served, update, NewScale::Patched(patch), warnings).await?
        } else {
            self.registry().patch(self.served, update, patch, warnings).await?
        };
        self.object(200, &answer, output)
    }

    async fn delete(
        &self,
        body: &Bytes,
        output: Output,
        mut asked: Option<Asked<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let options = self.delete_options(body, warnings)?;
        admission::tell_deletion(asked.as_mut(), &options);
        let admission = Admission::new(asked.as_ref());
        let (namespace, name) = (self.namespace(), self.name());
        let deleted = self.registry().delete(self.served, namespace, name, &options, admission, warnings).await?;
        let accepted = !deleted.gone && options.orphan_dependents == Some(false);
        self.object(if accepted { 202 } else { 200 }, &deleted.answer, output)
    }

    async fn delete_collection(
        &self,
        body: &Bytes,
        output: Output,
        mut asked: Option<Asked<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, ApiError> {
        let list = ListOptions::from_query(&self.query, false)?;
        let options = self.delete_options(body, warnings)?;
        admission::tell_deletion(asked.as_mut(), &options);
        let admission = Admission::new(asked.as_ref());
        let namespace = self.namespace();
        let deleted = self.registry().delete_collection(self.served, namespace, &list, &options, admission, warnings);
        let page = deleted.await?;
        respond::list(self.shared, self.served, page, output, self.query.get("includeObject")).await
    }

    fn log(&self) -> Result<Response<Body>, ApiError> {
        logs::check(&self.query, self.name())?;
        let text = self.registry().log(self.served, self.namespace(), self.name(), self.query.get("container"))?;
        Ok(respond::bytes(200, "text/plain", text))
    }

    fn delete_options(&self, body: &Bytes, warnings: &mut Vec<String>) -> Result<DeleteOptions, ApiError> {
        let options = if body.is_empty() {
            DeleteOptions::from_query(&self.query)?
        } else {
            let format = negotiate::input(&self.parts.headers)?;
            DeleteOptions::from_body(&codec::delete_options(body, format)?)?
        };
        if options.propagation.is_none() && options.orphan_dependents.is_none() {
            warnings.extend(self.served.kind.deletion_warning().map(str::to_owned));
        }
        Ok(options)
    }

    fn write_options(&self, kind: &str, apply: bool) -> Result<WriteOptions, ApiError> {
        let user_agent = negotiate::user_agent(&self.parts.headers);
        let options = WriteOptions::from_query(&self.query, kind, apply, user_agent)?;
        Ok(WriteOptions { user: Arc::clone(self.user), ..options })
    }

    fn decode(
        &self,
        model: &Model<'_>,
        body: &Bytes,
        format: Format,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Object, ApiError> {
        let mut object = match self.served.kind.custom() {
            Some(custom) => codec::custom::decode(custom, body, format, options.field_validation, warnings)?,
            None => codec::decode(model, body, format, options.field_validation, warnings)?,
        };
        self.served.kind.default(&mut object);
        self.served.kind.to_stored(&mut object);
        Ok(object)
    }

    fn changing<'o>(&'o self, options: &'o WriteOptions, admission: Admission<'o>) -> Update<'o> {
        let part = self.subresource.map_or(Part::Main, Subresource::part);
        let subresource = self.subresource.map_or("", Subresource::name);
        Update { namespace: self.namespace(), name: self.name(), part, subresource, options, admission }
    }

    fn object(&self, code: u16, answer: &Answer, output: Output) -> Result<Response<Body>, ApiError> {
        let include = self.query.get("includeObject");
        let response = respond::object(self.registry(), self.served, code, answer, output, include)?;
        Ok(match answer {
            Answer::Entry(entry) if self.verb != Verb::Get => durable::written(response, entry.version),
            _ => response,
        })
    }

    fn registry(&self) -> &crate::registry::Registry {
        &self.shared.registry
    }

    fn namespace(&self) -> &str {
        self.path.namespace.unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.path.name.unwrap_or_default()
    }
}
