//! The registry: what every kind has in common, done once.
//!
//! ```text
//!   create   body -> decode, default -> metadata -> managed fields -> admit -> prepare, validate -> admit -> commit
//!   update   live + body or patch -> managed fields -> admit -> prepare, validate -> admit -> (nothing changed? stop)
//!                 ^                                                                              |
//!                 +--------------------- somebody else was faster ---------------------------- commit
//!   delete   live -> preconditions -> grace, finalizers -> admit -> commit of a mark, or of the removal
//! ```
//!
//! An update is computed outside the storage's lock from a version that it names when it commits; if that version
//! is no longer the present one, it is computed again. A [`Kind`] says what is its own at each step. Admission may wait
//! for webhooks, so that writes are futures; one of the server's own never waits ([`crate::admission::at_once`]).

mod apiservices;
pub mod apply;
pub mod aside;
pub mod catalogue;
pub(crate) mod certificates;
mod components;
pub mod create;
pub mod definitions;
pub mod delete;
mod devices;
pub mod evictions;
mod expiry;
pub(crate) mod first;
pub mod list;
pub mod options;
mod parameters;
pub mod patch;
pub mod pods;
pub mod scale;
pub mod selection;
pub mod services;
pub mod settings;
mod sharding;
pub mod update;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use muster_objects::time::Timestamp;
use muster_tree::{Map, Value};

use crate::access::authorizer::{self, Authorizer};
use crate::access::escalation::{self, Write};
use crate::access::tokens::Objects;
use crate::admission::{self, Configured};
use crate::clock::Clock;
use crate::codec;
use crate::custom::conversion::Caller;
use crate::field::FieldError;
use crate::generator::Generator;
use crate::kinds::Kind;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Resource, Subresource};
use crate::schema;
use crate::schema::managed::Subject;
use crate::status::{ApiError, GroupResource};
use crate::storage::disk::{Stored, WriteError};
use crate::storage::{Draft, Entry, Refused, ResourceId, Storage};
pub use catalogue::Catalogue;
use options::WriteOptions;
use settings::Settings;

/// A kind, with its place in storage.
pub struct Served {
    /// What is the kind's own.
    pub kind: Arc<dyn Kind>,
    /// Where its objects are.
    pub id: ResourceId,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Served").field(&self.resource().plural).finish()
    }
}

impl Served {
    /// What discovery tells of the kind.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.kind.resource()
    }

    /// The group and plural name, for messages.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.resource().group, resource: &self.resource().plural }
    }

    /// The group and kind, for messages.
    #[must_use]
    pub fn group_kind(&self) -> GroupResource<'_> {
        GroupResource { group: self.stored_group(), resource: &self.resource().kind }
    }

    /// The group in which the objects are stored: the kind of what is served in two groups is spoken of as of that one.
    fn stored_group(&self) -> &str {
        self.kind.stored_as().map_or(&self.resource().group, |model| model.group)
    }

    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.resource().api_version()
    }

    /// Whether a webhook may have to be asked to tell its objects in another version.
    #[must_use]
    pub fn calls_out(&self) -> bool {
        self.kind.custom().is_some_and(|custom| custom.family().calls_out())
    }

    /// Whether what is stored is not what is served.
    #[must_use]
    pub fn converts(&self) -> bool {
        match self.kind.custom() {
            Some(custom) => !custom.is_plain(),
            None => self.kind.stored_as().is_some(),
        }
    }

    /// Whether metadata alone is told as it is stored.
    #[must_use]
    pub fn tells_metadata_as_stored(&self) -> bool {
        !self.converts() && self.kind.hidden_annotation().is_none()
    }

    /// What a write is handed and makes, in this version. Custom objects are in it already.
    #[must_use]
    pub fn present(&self, mut object: Object) -> Object {
        self.kind.to_served(&mut object);
        object
    }

    /// What is stored, as a write is handed it: custom objects in this version, others as they are stored.
    ///
    /// # Errors
    /// What a webhook that converts has against it.
    pub fn live(&self, entry: &Entry) -> Result<Object, ApiError> {
        let mut object = entry.object();
        self.read(std::slice::from_mut(&mut object))?;
        Ok(object)
    }

    /// As [`Served::live`], of trees.
    ///
    /// # Errors
    /// As by [`Served::live`].
    pub fn read(&self, stored: &mut [Object]) -> Result<(), ApiError> {
        let custom = self.kind.custom();
        custom.map_or(Ok(()), |custom| custom.read(stored)).map_err(ApiError::plain)
    }

    /// What a dry run answers with: what would be read after the write.
    ///
    /// # Errors
    /// As by [`Served::draft`] and [`Served::live`].
    pub fn rehearsed(&self, object: Object) -> Result<Object, ApiError> {
        let Some(custom) = self.kind.custom().filter(|custom| !custom.is_plain()) else { return Ok(object) };
        let mut object = object;
        custom.store(&mut object).map_err(ApiError::plain)?;
        self.read(std::slice::from_mut(&mut object))?;
        Ok(object)
    }

    /// What field managers share of the objects.
    #[must_use]
    pub fn subject(&self) -> Subject<'_> {
        Subject { model: self.resource().model(), open: self.kind.custom().map(|custom| custom.family().open()) }
    }

    /// Whether the kind has this subresource.
    #[must_use]
    pub fn has(&self, subresource: Subresource) -> bool {
        self.resource().subresources.contains(&subresource)
    }

    /// 404 for one object of the kind.
    #[must_use]
    pub fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(self.group_resource(), name)
    }

    /// 422 for one object of the kind.
    #[must_use]
    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> ApiError {
        ApiError::invalid(self.group_kind(), name, errors)
    }

    /// 422 for one object of the kind, or for one that a client takes for one.
    #[must_use]
    pub fn invalid_object(&self, object: &Object, name: &str, errors: &[FieldError]) -> ApiError {
        let said = || GroupResource { group: group_and_version(object).0, resource: object.text("kind") };
        let named = if self.kind.custom().is_some() { said() } else { self.group_kind() };
        ApiError::invalid(named, name, errors)
    }

    /// 500 for a custom object that does not say its version.
    fn check_version(&self, object: &Object) -> Result<(), ApiError> {
        if self.kind.custom().is_some() && group_and_version(object).1.is_empty() {
            return Err(ApiError::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"));
        }
        Ok(())
    }

    /// Records in `metadata.managedFields` who wrote what. What the server does on its own has no manager.
    pub fn update_managed_fields(
        &self,
        registry: &Registry,
        live: Option<&Object>,
        object: &mut Object,
        manager: &str,
        subresource: &str,
        now: Timestamp,
    ) {
        if manager.is_empty() {
            return;
        }
        let subject = self.subject();
        let convert = |object: &Object, version: &str| registry.in_version(subject, object, version);
        if self.kind.stored_as().is_none() {
            schema::managed::update(&subject, live, object, manager, subresource, now, &convert);
            return;
        }
        // Who wrote what is told in the version in which it was written.
        let live = live.map(|live| self.present(live.clone()));
        let mut shown = self.present(object.clone());
        schema::managed::update(&subject, live.as_ref(), &mut shown, manager, subresource, now, &convert);
        let metadata = object.object_or_new("metadata");
        metadata.carry("managedFields", shown.object_or_new("metadata"));
    }

    /// The object as storage takes it.
    ///
    /// # Errors
    /// 500 when it is larger than the reference's storage takes (API-22).
    pub fn draft(&self, object: &Object, previous: Option<&Entry>) -> Result<Draft, ApiError> {
        let mut stored = Cow::Borrowed(object);
        if let Some(custom) = self.kind.custom().filter(|custom| !custom.is_plain()) {
            custom.store(stored.to_mut()).map_err(ApiError::plain)?;
        }
        let object = stored.as_ref();
        let draft = Draft::new(object, fields(self.kind.as_ref(), object), previous);
        // The reference stores protobuf, which is shorter than JSON.
        let stored = || codec::to_protobuf(&Value::Object(object.clone())).map_or(draft.size(), |bytes| bytes.len());
        if draft.size() > LARGEST_STORED && stored() > LARGEST_STORED {
            return Err(ApiError::plain(TOO_LARGE));
        }
        Ok(draft)
    }

    /// The same; one that is too large is stored without its managed fields, unless it was applied: who applies has no manager
    /// here.
    fn draft_to_fit(
        &self,
        object: &mut Object,
        previous: Option<&Entry>,
        options: &WriteOptions,
    ) -> Result<Draft, ApiError> {
        match self.draft(object, previous) {
            Err(error) if error.message == TOO_LARGE && !options.manager.is_empty() => {
                set_metadata(object, "managedFields", None);
                self.draft(object, previous)
            }
            draft => draft,
        }
    }
}

/// The values for field selectors.
fn fields(kind: &dyn Kind, object: &Object) -> String {
    let mut fields = String::new();
    for label in kind.indexed() {
        if let Some(value) = kind.field(object, label) {
            fields.extend(value.chars().filter(|c| *c != '\0'));
        }
        fields.push('\0');
    }
    fields
}

/// An object of a kind as it was kept; `None` where that is no object.
fn kept_draft(kind: &dyn Kind, stored: &Stored) -> Option<Draft> {
    let read = || match schema::read_json(&stored.json) {
        // Deeper than the first reader goes.
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    };
    let object = serde_json::from_slice(&stored.json).ok().or_else(read)?;
    Some(Draft::new(&object, fields(kind, &object), None))
}

const TOO_LARGE: &str = "etcdserver: request is too large";

/// The longest object that is stored, in bytes: etcd takes requests of 1.5 MiB, and needs some of that for the key.
const LARGEST_STORED: usize = 1_572_864 - 200;

/// What a request answers with.
#[derive(Debug)]
pub enum Answer {
    /// A stored object.
    Entry(Arc<Entry>),
    /// An object that is not stored as it is: of a dry run, or a `Scale`, or a `Status`.
    Object(Object),
}

impl Answer {
    /// The object as a tree.
    #[must_use]
    pub fn object(&self) -> Object {
        match self {
            Self::Entry(entry) => entry.object(),
            Self::Object(object) => object.clone(),
        }
    }
}

/// All kinds, over one storage.
#[derive(Debug)]
pub struct Registry {
    catalogue: RwLock<Arc<Catalogue>>,
    /// Where objects are kept.
    pub storage: Arc<Storage>,
    /// The time.
    pub clock: Clock,
    /// Uids and names.
    pub generator: Generator,
    /// What it was told of its cluster.
    pub settings: Settings,
    /// Who may do what.
    pub authorizer: Authorizer,
    /// Objects that go by themselves.
    expiry: expiry::Expiry,
    /// What talks to webhooks.
    pub webhooks: OnceLock<Arc<dyn Caller>>,
    /// What came with CustomResourceDefinitions.
    definitions: definitions::Definitions,
    /// What namespaces with quotas use.
    pub(crate) usage: admission::quota::Usage,
    /// What Services have been given that are still to be stored.
    unstored: services::Unstored,
    /// The webhooks and policies that are configured.
    pub configured: Configured,
    /// The authority whose certificates are credentials here, in PEM, for others who would trust them too.
    client_ca: OnceLock<String>,
}

impl Registry {
    /// A registry of kinds over a storage without tables. Discovery keeps their order within a group version.
    #[must_use]
    pub fn new(
        kinds: Vec<Arc<dyn Kind>>,
        clock: Clock,
        generator: Generator,
        storage: Arc<Storage>,
        mode: authorizer::Mode,
        settings: Settings,
    ) -> Self {
        let catalogue = Catalogue::default().with(kinds, &storage);
        let table = |plural| catalogue.find("rbac.authorization.k8s.io", "v1", plural).map(|served| served.id);
        let tables = || {
            Some(authorizer::Tables {
                cluster_roles: table("clusterroles")?,
                cluster_role_bindings: table("clusterrolebindings")?,
                roles: table("roles")?,
                role_bindings: table("rolebindings")?,
            })
        };
        let authorizer = Authorizer::new(mode, Arc::clone(&storage), tables());
        let configured = Configured::new(&catalogue, &storage, &settings.plugins);
        Self {
            catalogue: RwLock::new(Arc::new(catalogue)),
            storage,
            clock,
            generator,
            settings,
            authorizer,
            expiry: expiry::Expiry::default(),
            webhooks: OnceLock::new(),
            definitions: definitions::Definitions::default(),
            usage: admission::quota::Usage::default(),
            unstored: services::Unstored::default(),
            configured,
            client_ca: OnceLock::new(),
        }
    }

    /// All kinds, as they are now.
    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kind at `group/version`, `plural`.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        self.catalogue().find(group, version, plural).cloned()
    }

    /// Serves other kinds in the place of those of a group and plural name, and no kind where there are none. Those that
    /// come take over the objects of those that go; where none comes, the objects are kept for kinds that come later, or go
    /// where they are `gone`, by what was undone when that was looked at: then watches of them end.
    fn replace_kinds(&self, group: &str, plural: &str, kinds: Vec<Arc<dyn Kind>>, gone: Option<u64>) {
        let mut place = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&place);
        let after = Arc::new(before.replacing(group, plural, kinds, gone, &self.storage));
        *place = Arc::clone(&after);
        drop(place);
        apiservices::follow(self, group, &before, &after);
    }

    /// The present state of one object.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub fn get(&self, served: &Served, namespace: &str, name: &str) -> Result<Arc<Entry>, ApiError> {
        self.storage.get(served.id, namespace, name).ok_or_else(|| served.not_found(name))
    }

    /// Refuses a role or binding that grants more than its writer has. `place` is the path's namespace and name, and `old`
    /// what an update changes.
    fn check_escalation(
        &self,
        served: &Served,
        (namespace, name): (&str, &str),
        options: &WriteOptions,
        object: &Object,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let write = Write { user: &options.user, resource: served.resource(), namespace, name };
        escalation::check(&self.authorizer, write, object, old)
    }

    /// The time as metadata has it.
    fn now_text(&self) -> String {
        self.clock.now().to_string()
    }
}

impl Objects for Registry {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Object> {
        let served = Registry::find(self, "", "v1", plural)?;
        self.storage.get(served.id, namespace, name).map(|entry| entry.object())
    }
}

/// What was committed; `None` where another write came in between, and the next attempt looks again.
fn in_time(outcome: Result<Arc<Entry>, Refused>) -> Result<Option<Arc<Entry>>, ApiError> {
    match outcome {
        Ok(entry) => Ok(Some(entry)),
        Err(Refused::Unwritten(error)) => Err(error.into()),
        Err(Refused::Exists(_) | Refused::Missing | Refused::Changed) => Ok(None),
    }
}

/// 500: the disk refuses a write; in the words of the reference where it is full.
impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        Self::plain(if error.full {
            format!("etcdserver: mvcc: database space exceeded: {error}")
        } else {
            error.to_string()
        })
    }
}

/// `metadata.resourceVersion`, as it came with a write.
enum Version {
    /// None, or an empty one.
    Unsaid,
    /// A number.
    At(u64),
}

fn version_of(object: &Object) -> Result<Version, ApiError> {
    match metadata(object).text("resourceVersion") {
        "" | "0" => Ok(Version::Unsaid),
        text => text.parse().map(Version::At).map_err(|_| {
            ApiError::plain(format!("strconv.ParseUint: parsing {}: invalid syntax", crate::field::go_quote(text)))
        }),
    }
}

/// Sets a field of metadata, or removes it.
fn set_metadata(object: &mut Object, key: &str, value: Option<Value>) {
    let metadata = object.object_or_new("metadata");
    match value {
        Some(value) => {
            metadata.insert(key, value);
        }
        None => {
            metadata.remove(key);
        }
    }
}

/// What an object says that it is of.
fn group_and_version(object: &Object) -> (&str, &str) {
    let said = object.text("apiVersion");
    said.split_once('/').unwrap_or(("", said))
}

/// Makes the object's namespace the request's, or says that they differ.
pub(crate) fn match_namespace(served: &Served, object: &mut Object, namespace: &str) -> Result<(), ApiError> {
    if !served.resource().namespaced {
        set_metadata(object, "namespace", None);
        return Ok(());
    }
    let found = metadata(object).text("namespace");
    if found == namespace {
        return Ok(());
    }
    if !found.is_empty() {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    set_metadata(object, "namespace", Some(Value::from(namespace)));
    Ok(())
}

/// Drops owner references that are there twice. `late` says that the object has been through admission, which
/// words the warning.
fn deduplicate_owners(object: &mut Object, late: bool, warnings: &mut Vec<String>) {
    let Some(owners) =
        object.get_mut("metadata").and_then(|m| m.get_mut("ownerReferences")).and_then(Value::as_array_mut)
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice: Vec<String> = Vec::new();
    for owner in std::mem::take(owners) {
        if kept.contains(&owner) {
            twice.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept.into();
    if !twice.is_empty() {
        let uids = twice.join(", ");
        warnings.push(if late {
            format!(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
            )
        } else {
            format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
            )
        });
    }
}

/// An empty object.
#[must_use]
pub fn empty() -> Object {
    Map::new()
}
