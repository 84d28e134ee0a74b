//! The requests that a resource answers, as OpenAPI's operations.

use muster_tree::{Map, Value, json};

use super::custom::model_name;
use super::{STATUS, Schemas, tag, title};
use crate::model::{Resource, Subresource};
use crate::schema::table::Table;

/// Writes the requests of one resource.
pub(super) struct Operations<'a> {
    pub(super) resource: &'a Resource,
    pub(super) root: &'a str,
    pub(super) schemas: &'a mut Schemas,
    pub(super) paths: &'a mut Map,
}

/// A query parameter: name, type, what it is for.
type Parameter = (&'static str, &'static str, &'static str);

const PRETTY: Parameter = ("pretty", "string", "If 'true', the answer is indented.");
const DRY_RUN: Parameter = ("dryRun", "string", "'All' does everything but keep the outcome.");
const FIELD_MANAGER: Parameter =
    ("fieldManager", "string", "The name of whoever makes the change, at most 128 characters.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields: Ignore drops them, Warn says so in a Warning header, Strict refuses the request.",
);
const FORCE: Parameter = ("force", "boolean", "For apply: take conflicting fields from their managers.");
const SHARD_SELECTOR: Parameter =
    ("shardSelector", "string", "Which objects, by ranges of the hash of their uid or namespace.");
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Ask for BOOKMARK events in a watch."),
    ("continue", "string", "Where an earlier list with a limit stopped."),
    ("fieldSelector", "string", "Which objects, by their fields."),
    ("labelSelector", "string", "Which objects, by their labels."),
    ("limit", "integer", "The most objects to answer with."),
    ("resourceVersion", "string", "The version to list or to watch from."),
    ("resourceVersionMatch", "string", "How to take resourceVersion: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that there are, and a bookmark."),
    SHARD_SELECTOR,
    ("timeoutSeconds", "integer", "How long a list or a watch may take."),
    ("watch", "boolean", "Watch instead of listing."),
];
const DELETE: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "Seconds until the object goes; zero for at once."),
    ("orphanDependents", "boolean", "Older form of propagationPolicy."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];

/// Who an operation is about and what it is called.
struct Named<'a> {
    /// The first word of the identifier, such as `create`.
    verb: &'a str,
    /// What follows the kind in it, such as `Status`.
    suffix: &'a str,
    /// `x-kubernetes-action`.
    action: &'a str,
    description: String,
    /// Group, version and kind of what is sent or answered.
    gvk: (&'a str, &'a str, &'a str),
}

impl<'a> Operations<'a> {
    pub(super) fn write(mut self) {
        let Resource { kind, plural, namespaced, .. } = self.resource;
        let namespaced = *namespaced;
        let scope = if namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("{}{scope}{plural}", self.root);
        if !self.resource.can("list") {
            return self.write_posted(collection);
        }
        let own = self.gvk();
        let schema = self.schema_name(own.0, own.1, own.2);
        let list = self.schema_name(own.0, own.1, &self.resource.list_kind);

        let mut at = Map::new();
        at.insert("parameters", self.path_parameters(false, namespaced));
        let named = |verb, suffix, action, description: &str| Named {
            verb,
            suffix,
            action,
            description: format!("{description} {kind}"),
            gvk: own,
        };
        let get = self.operation(&named("list", "", "list", "list or watch objects of kind"), LIST);
        at.insert("get", self.answering(get, &[200], &list, true));
        let post =
            self.operation(&named("create", "", "post", "create a"), &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]);
        let post = self.sending(post, &schema);
        at.insert("post", self.answering(post, &[200, 201, 202], &schema, false));
        if self.resource.can("deletecollection") {
            let parameters: Vec<Parameter> =
                DELETE.iter().chain(&LIST[1..7]).copied().chain([SHARD_SELECTOR]).collect();
            let mut delete =
                self.operation(&named("delete", "", "deletecollection", "delete collection of"), &parameters);
            delete.insert(
                "operationId".to_owned(),
                json!(format!("delete{}Collection{}{kind}", title(own.0, own.1), namespaced_word(namespaced))),
            );
            let delete = self.with_options(delete);
            at.insert("delete", self.answering(delete, &[200], STATUS, false));
        }
        self.paths.insert(collection.clone(), Value::Object(at));

        if namespaced {
            let mut at = Map::new();
            let mut get = self.operation(&named("list", "", "list", "list or watch objects of kind"), LIST);
            get.insert("operationId", json!(format!("list{}{kind}ForAllNamespaces", title(own.0, own.1))));
            at.insert("get", self.answering(get, &[200], &list, true));
            at.insert("parameters", json!([query(PRETTY)]));
            self.paths.insert(format!("{}{plural}", self.root), Value::Object(at));
        }

        let item = format!("{collection}/{{name}}");
        let mut at = self.reading_and_writing("", own, &schema);
        let delete = self.operation(&named("delete", "", "delete", "delete a"), DELETE);
        let delete = self.with_options(delete);
        let answer = if kind == "Pod" || kind == "ServiceAccount" { schema.as_str() } else { STATUS };
        at.insert("delete", self.answering(delete, &[200, 202], answer, false));
        self.paths.insert(item.clone(), Value::Object(at));
        for subresource in &self.resource.subresources {
            self.subresource(&item, *subresource);
        }
    }

    /// A kind that is only ever posted.
    fn write_posted(&mut self, collection: String) {
        let own = self.gvk();
        let description = format!("create a {}", own.2);
        let named = Named { verb: "create", suffix: "", action: "post", description, gvk: own };
        let schema = self.schema_name(own.0, own.1, own.2);
        let post = self.operation(&named, &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]);
        let post = self.sending(post, &schema);
        let mut at = Map::new();
        at.insert("post", self.answering(post, &[200, 201, 202], &schema, false));
        at.insert("parameters", self.path_parameters(false, self.resource.namespaced));
        self.paths.insert(collection, Value::Object(at));
    }

    /// The schema of a kind.
    fn schema_name(&self, group: &str, version: &str, kind: &str) -> String {
        let table = Table::get();
        match table.kind(group, version, kind) {
            Some(id) => table.ty(id).name.to_owned(),
            None => model_name(group, version, kind),
        }
    }

    fn gvk(&self) -> (&'a str, &'a str, &'a str) {
        (&self.resource.group, &self.resource.version, &self.resource.kind)
    }

    /// get, put and patch of an object or of a part of it.
    fn reading_and_writing(&mut self, suffix: &str, gvk: (&str, &str, &str), schema: &str) -> Map {
        let kind = &self.resource.kind;
        let part = if suffix.is_empty() { String::new() } else { format!("{} of ", suffix.to_ascii_lowercase()) };
        let named = |verb, action, words: &str| Named {
            verb,
            suffix,
            action,
            description: format!("{words} {part}the specified {kind}"),
            gvk,
        };
        let mut at = Map::new();
        at.insert("parameters", self.path_parameters(true, self.resource.namespaced));
        let get = self.operation(&named("read", "get", "read"), &[]);
        at.insert("get", self.answering(get, &[200], schema, false));
        let put = self.operation(&named("replace", "put", "replace"), &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]);
        let put = self.sending(put, schema);
        at.insert("put", self.answering(put, &[200, 201], schema, false));
        let parameters = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
        let mut patch = self.operation(&named("patch", "patch", "partially update"), &parameters);
        let mut content = Map::new();
        let strategic = (!self.schemas.custom.contains_key(schema)).then_some("application/strategic-merge-patch+json");
        let all = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
        for media in all.into_iter().chain(strategic) {
            let body = self.schemas.named("io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
            content.insert(media.to_owned(), json!({ "schema": body }));
        }
        patch.insert("requestBody", json!({ "content": content, "required": true }));
        at.insert("patch", self.answering(patch, &[200, 201], schema, false));
        at
    }

    fn subresource(&mut self, item: &str, subresource: Subresource) {
        let own = self.gvk();
        let namespaced = self.resource.namespaced;
        let gvk = subresource.model().map_or(own, |model| (model.group, model.version, model.kind));
        let suffix = super::capital(subresource.name());
        let verbs = subresource.verbs();
        let at = match subresource {
            // What a container would answer has no type.
            _ if subresource.connects() => return,
            Subresource::Log => {
                let named = Named {
                    verb: "read",
                    suffix: "Log",
                    action: "get",
                    description: format!("read log of the specified {}", own.2),
                    gvk: own,
                };
                let mut get = self.operation(&named, &[]);
                let text = json!({ "schema": { "type": "string" } });
                get.insert(
                    "responses".to_owned(),
                    json!({ "200": { "description": "OK", "content": { "text/plain": text } }, "401": { "description": "Unauthorized" } }),
                );
                let mut at = Map::new();
                at.insert("get", Value::Object(get));
                at.insert("parameters", self.path_parameters(true, namespaced));
                at
            }
            _ if verbs.contains(&"create") => self.posting(&suffix, gvk),
            _ => {
                let mut at = self.reading_and_writing(&suffix, gvk, &self.schema_name(gvk.0, gvk.1, gvk.2));
                for (method, verb) in [("get", "get"), ("patch", "patch"), ("put", "update")] {
                    if !verbs.contains(&verb) {
                        at.remove(method);
                    }
                }
                at
            }
        };
        let name = subresource.name();
        self.paths.insert(format!("{item}/{name}"), Value::Object(at));
    }

    /// A part that is only ever posted to.
    fn posting(&mut self, suffix: &str, gvk: (&str, &str, &str)) -> Map {
        let kind = &self.resource.kind;
        let schema = self.schema_name(gvk.0, gvk.1, gvk.2);
        let description = format!("create {} of a {kind}", suffix.to_ascii_lowercase());
        let named = Named { verb: "create", suffix, action: "post", description, gvk };
        let post = self.operation(&named, &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]);
        let post = self.sending(post, &schema);
        let mut at = Map::new();
        at.insert("post", self.answering(post, &[200, 201, 202], &schema, false));
        at.insert("parameters", self.path_parameters(true, self.resource.namespaced));
        at
    }

    fn operation(&self, named: &Named<'_>, parameters: &[Parameter]) -> Map {
        let Resource { group, version, kind, namespaced, .. } = self.resource;
        let namespaced = *namespaced;
        let mut out = Map::new();
        let id =
            format!("{}{}{}{kind}{}", named.verb, title(group, version), namespaced_word(namespaced), named.suffix);
        out.insert("operationId", json!(id));
        out.insert("description", json!(named.description));
        out.insert("tags", json!([tag(group, version)]));
        out.insert("x-kubernetes-action", json!(named.action));
        let (group, version, kind) = named.gvk;
        out.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!({ "group": group, "kind": kind, "version": version }),
        );
        if !parameters.is_empty() {
            let all: Vec<Value> = parameters.iter().map(|p| query(*p)).collect();
            out.insert("parameters", Value::Array(all.into()));
        }
        out
    }

    fn answering(&mut self, mut operation: Map, codes: &[u16], schema: &str, streams: bool) -> Value {
        operation.insert("responses", self.schemas.responses(codes, schema, streams));
        Value::Object(operation)
    }

    fn sending(&mut self, mut operation: Map, schema: &str) -> Map {
        let body = self.schemas.named(schema);
        operation.insert("requestBody", json!({ "content": { "*/*": { "schema": body } }, "required": true }));
        operation
    }

    fn with_options(&mut self, mut operation: Map) -> Map {
        let body = self.schemas.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        operation.insert("requestBody", json!({ "content": { "*/*": { "schema": body } } }));
        operation
    }

    fn path_parameters(&self, name: bool, namespace: bool) -> Value {
        let mut out = Vec::new();
        let path = |name: &str, description: String| {
            json!({
                "name": name, "in": "path", "required": true, "description": description,
                "schema": { "type": "string", "uniqueItems": true },
            })
        };
        if name {
            out.push(path("name", format!("name of the {}", self.resource.kind)));
        }
        if namespace {
            out.push(path("namespace", "the namespace that the objects are in".to_owned()));
        }
        out.push(query(PRETTY));
        Value::Array(out.into())
    }
}

fn namespaced_word(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "" }
}

fn query((name, ty, description): Parameter) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": { "type": ty, "uniqueItems": true } })
}
