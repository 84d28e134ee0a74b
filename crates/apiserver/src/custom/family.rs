//! A definition, compiled: all that serving its objects needs, for all its versions together.
//!
//! Objects are handled in the version of the request and stored in one. What is read from storage is defaulted in the
//! version that it was stored in, told in the version of the request, and pruned by that one's schema.
//!
//! Schemas are most of it. They are compiled when the first object asks for them, since most definitions of a cluster
//! have no objects.

use std::sync::{Arc, LazyLock};

use muster_tree::Value;
use tokio::sync::Semaphore;

use super::columns::{self, Column};
use super::conversion::{self, Caller};
use super::definition::{self, Conversion, Definition, Names, Scale};
use super::path::JsonPath;
use super::structural::{Additional, Kind, ListType, Structural};
use super::{Object, default, metadata, prune};
use crate::model::{api_version, groups};
use crate::schema::managed::open::{Atom, Items, Member, Members, Node, Open, Scalar};
use crate::schema::table::{Kind as TypeKind, Shape, Table, Topology};

/// A definition, compiled.
#[derive(Debug)]
pub struct Family {
    /// The definition's name.
    pub definition: String,
    /// The group.
    pub group: String,
    /// The names that are accepted.
    pub names: Names,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether the definition is on its way out.
    pub terminating: bool,
    /// How one version becomes another.
    pub conversion: Conversion,
    /// All versions, served or not.
    pub versions: Vec<Version>,
    /// Which of them is stored.
    pub storage: usize,
    /// What is made of the schemas.
    compiled: LazyLock<Compiled, Box<dyn FnOnce() -> Compiled + Send + Sync>>,
    /// What changes when the definition does.
    pub stamp: u64,
    /// What talks to webhooks.
    caller: Arc<dyn Caller>,
    /// Who may wait for one.
    pub turns: Semaphore,
}

/// So many may wait for the webhook of one definition at once.
const MOST_WAITING: usize = 64;

/// What is made of the schemas of all versions.
#[derive(Debug)]
struct Compiled {
    schemas: Vec<Structural>,
    open: Open,
}

/// A version.
#[derive(Debug)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether `/status` has a URL of its own.
    pub status: bool,
    /// The scale.
    pub scale: Option<Scale>,
    /// The columns behind the name.
    pub columns: Vec<Column>,
    /// The fields that can be selected by, and where they are.
    pub selectable: Vec<(String, JsonPath)>,
    /// What every answer warns of.
    pub deprecation: Option<String>,
}

impl Family {
    /// Compiles a definition. `again` reads it once more, for its schemas.
    pub fn new(
        definition: &Definition,
        caller: Arc<dyn Caller>,
        again: impl FnOnce() -> Definition + Send + Sync + 'static,
    ) -> Self {
        let spec = &definition.spec;
        let versions: Vec<Version> = spec
            .versions
            .iter()
            .map(|version| Version {
                name: version.name.clone(),
                served: version.served,
                status: version.has_status(),
                scale: version.scale().cloned(),
                columns: columns::columns(version),
                selectable: version
                    .selectable_fields
                    .iter()
                    .filter_map(|field| {
                        let path = JsonPath::parse(&field.json_path)?;
                        Some((field.json_path.trim_start_matches('.').to_owned(), path))
                    })
                    .collect(),
                deprecation: version.deprecated.then(|| {
                    version.deprecation_warning.clone().unwrap_or_else(|| deprecation(definition, &version.name))
                }),
            })
            .collect();
        Self {
            definition: definition.metadata.name.clone(),
            group: spec.group.clone(),
            names: definition.status.accepted_names.clone(),
            namespaced: spec.scope == "Namespaced",
            terminating: definition.metadata.deletion_timestamp.is_some(),
            conversion: spec.conversion.clone().unwrap_or_default(),
            storage: spec.versions.iter().position(|version| version.storage).unwrap_or_default(),
            versions,
            compiled: LazyLock::new(Box::new(move || Compiled::new(&again()))),
            stamp: definition.stamp(),
            caller,
            turns: Semaphore::new(MOST_WAITING),
        }
    }

    /// The schema of a version.
    #[must_use]
    pub fn schema(&self, at: usize) -> &Structural {
        &self.compiled.schemas[at]
    }

    /// What managers share of the objects.
    #[must_use]
    pub fn open(&self) -> &Open {
        &self.compiled.open
    }

    /// Whether objects are stored in the same version and by the same schema as by another definition.
    #[must_use]
    pub fn stores_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.versions[self.storage], &other.versions[other.storage]);
        own.name == others.name && self.schema(self.storage) == other.schema(other.storage)
    }

    /// `example.com/v1`
    #[must_use]
    pub fn api_version(&self, at: usize) -> String {
        self.versions.get(at).map_or_else(String::new, |version| api_version(&self.group, &version.name))
    }

    /// The version that an object says it is of.
    #[must_use]
    pub fn version_of(&self, object: &Object) -> Option<usize> {
        self.version_named(object.get("apiVersion").and_then(Value::as_str)?)
    }

    /// The version of an `apiVersion`.
    #[must_use]
    pub fn version_named(&self, api_version: &str) -> Option<usize> {
        let (group, name) = api_version.split_once('/')?;
        self.versions.iter().position(|version| group == self.group && version.name == name)
    }

    /// Tells objects in a version; drops what that version does not know, and fills in what they were stored without.
    ///
    /// # Errors
    /// What a webhook that converts has against it.
    pub fn tell(&self, objects: &mut [Object], at: usize) -> Result<(), String> {
        for object in objects.iter_mut() {
            if let Some(from) = self.version_of(object) {
                default::fill(object, self.schema(from));
            }
        }
        self.convert(objects, at)?;
        objects.iter_mut().for_each(|object| self.prune(object, at));
        Ok(())
    }

    /// Makes of an object what is stored of it.
    ///
    /// # Errors
    /// As by [`Family::tell`].
    pub fn store(&self, object: &mut Object) -> Result<(), String> {
        if self.version_of(object).is_some_and(|from| from != self.storage) {
            self.convert(std::slice::from_mut(object), self.storage)?;
            default::fill(object, self.schema(self.storage));
        }
        self.prune(object, self.storage);
        Ok(())
    }

    /// Makes objects ones of another version, without dropping anything.
    ///
    /// # Errors
    /// As by [`Family::tell`].
    pub fn convert(&self, objects: &mut [Object], to: usize) -> Result<(), String> {
        let api_version = self.api_version(to);
        if let Some(webhook) = self.conversion.webhook.as_ref().filter(|_| self.calls_out()) {
            return conversion::convert(webhook, self.caller.as_ref(), objects, &api_version);
        }
        for object in objects {
            object.insert("apiVersion", Value::from(api_version.as_str()));
        }
        Ok(())
    }

    /// Whether conversions wait for a webhook.
    #[must_use]
    pub fn calls_out(&self) -> bool {
        self.conversion.strategy == "Webhook"
    }

    fn prune(&self, object: &mut Object, at: usize) {
        prune::prune_object(object, self.schema(at));
        metadata::coerce_dropping(object, self.schema(at));
    }
}

impl Compiled {
    fn new(definition: &Definition) -> Self {
        let versions = &definition.spec.versions;
        let schemas: Vec<Structural> =
            versions.iter().map(|version| version.props().map_or_else(anything, Structural::new)).collect();
        let open = Open {
            versions: versions.iter().zip(&schemas).map(|(v, schema)| (v.name.clone(), root(schema))).collect(),
            has_status: versions.iter().any(definition::Version::has_status),
        };
        Self { schemas, open }
    }
}

/// What is said of a version on its way out: to use the newest one that is not, where that is newer.
fn deprecation(definition: &Definition, version: &str) -> String {
    let spec = &definition.spec;
    let (group, kind) = (&spec.group, &spec.names.kind);
    let newest = spec
        .versions
        .iter()
        .filter(|other| other.served && !other.deprecated)
        .map(|other| other.name.as_str())
        .filter(|other| groups::compare_versions(other, version).is_lt())
        .min_by(|a, b| groups::compare_versions(a, b));
    let instead = newest.map(|newest| format!("; use {group}/{newest} {kind}")).unwrap_or_default();
    format!("{group}/{version} {kind} is deprecated{instead}")
}

/// The schema of a version without one.
fn anything() -> Structural {
    Structural { kind: Some(Kind::Object), preserve_unknown: true, ..Structural::default() }
}

/// What managers share of a whole object.
fn root(schema: &Structural) -> Node {
    match node(schema, false) {
        Node::Atom(mut atom) => {
            atom.map = atom.map.map(with_object_fields);
            Node::Atom(atom)
        }
        node => node,
    }
}

/// What every object of Kubernetes has, too.
fn with_object_fields(map: Members) -> Members {
    let metadata = Table::get().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let metadata = metadata.map(|id| Node::Typed(Box::new(Shape { kind: TypeKind::Struct(id), named: None })));
    let own = [
        ("apiVersion", Some(Node::Scalar(Scalar::Text))),
        ("kind", Some(Node::Scalar(Scalar::Text))),
        ("metadata", metadata),
    ];
    let mut named: Vec<(Box<str>, Member)> = map.named.into_vec();
    named.retain(|(name, _)| own.iter().all(|(other, _)| **name != **other));
    named.extend(own.into_iter().filter_map(|(name, node)| Some((name.into(), Member { node: node?, default: None }))));
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    Members { named: named.into(), ..map }
}

/// What managers share of a value; `open` says that unknown members stay.
fn node(schema: &Structural, open: bool) -> Node {
    let open = open || schema.preserve_unknown;
    let own = || {
        let map = members(schema, open);
        if schema.embedded { with_object_fields(map) } else { map }
    };
    let atom = match schema.kind {
        None => Atom { scalar: Some(Scalar::Any), list: Some(items(schema, open)), map: Some(own()) },
        Some(Kind::Object) => Atom { map: Some(own()), ..Atom::default() },
        Some(Kind::Array) => Atom { list: Some(items(schema, open)), ..Atom::default() },
        Some(Kind::Boolean) => return Node::Scalar(Scalar::Boolean),
        Some(Kind::Integer | Kind::Number) => return Node::Scalar(Scalar::Number),
        Some(Kind::String) => return Node::Scalar(if schema.formatted { Scalar::Any } else { Scalar::Text }),
    };
    Node::Atom(Box::new(atom))
}

fn members(schema: &Structural, open: bool) -> Members {
    let named: Box<[(Box<str>, Member)]> = schema
        .properties
        .iter()
        .map(|(name, below)| (name.clone(), Member { node: node(below, open), default: below.default.clone() }))
        .collect();
    let others = match &schema.additional {
        Additional::Schema(below) => Some(node(below, open)),
        Additional::Bool(true) => Some(Node::Deduced),
        Additional::Unsaid if open || (named.is_empty() && !schema.embedded) => Some(Node::Deduced),
        Additional::Bool(false) | Additional::Unsaid => None,
    };
    Members { named, others: others.map(Box::new), atomic: schema.atomic_map }
}

fn items(schema: &Structural, open: bool) -> Items {
    let element = schema.items.as_ref().map_or(Node::Untyped, |below| node(below, open));
    let (topology, keys) = match &schema.list_type {
        ListType::Atomic => (Topology::Atomic, Vec::new()),
        ListType::Set => (Topology::Set, Vec::new()),
        ListType::Map(keys) => (Topology::Keyed, keys.iter().map(ToString::to_string).collect()),
    };
    Items { element: Box::new(element), topology, keys }
}
