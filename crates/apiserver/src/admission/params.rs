//! The parameters of a policy: objects of any kind that a binding names or selects.

use std::sync::Arc;

use muster_objects::Selector;
use muster_tree::Value;

use crate::model::{Fields as _, Object};
use crate::registry::aside::aside;
use crate::registry::{Registry, Served};
use crate::storage::{Entry, Range};
use crate::validation::selector;

/// The kind of a policy's parameters.
#[derive(Debug)]
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
}

impl ParamKind {
    pub(super) fn new(kind: &Object) -> Self {
        let api_version = kind.text("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.text("kind").to_owned() }
    }

    /// The kind, as it is served.
    ///
    /// # Errors
    /// That it is not.
    pub(super) fn find(&self, registry: &Registry) -> Result<Arc<Served>, String> {
        let Self { group, version, kind } = self;
        registry
            .catalogue()
            .of_kind(group, version, kind)
            .cloned()
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"))
    }
}

/// Which parameters a binding means.
#[derive(Debug)]
pub(super) struct ParamRef {
    namespace: String,
    name: String,
    selector: Option<Result<Selector, String>>,
    /// Whether there has to be one.
    required: bool,
}

impl ParamRef {
    pub(super) fn new(reference: &Object) -> Self {
        let labels = reference.object("selector");
        Self {
            namespace: reference.text("namespace").to_owned(),
            name: reference.text("name").to_owned(),
            selector: labels.map(|labels| selector::parse(Some(labels)).map_err(|error| error.to_string())),
            required: reference.text("parameterNotFoundAction") == "Deny",
        }
    }

    /// The parameters, for a request in a namespace.
    ///
    /// # Errors
    /// Why there cannot be any, or that there are none where there have to be.
    pub(super) fn collect(
        &self,
        registry: &Registry,
        served: &Served,
        namespace: &str,
    ) -> Result<Vec<Option<Value>>, String> {
        let namespaced = served.resource().namespaced;
        let namespace = match (namespaced, self.namespace.as_str()) {
            (true, "") if namespace.is_empty() => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
                );
            }
            (true, "") => namespace,
            (false, own) if !own.is_empty() => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
            (_, own) => own,
        };
        let found: Vec<Arc<Entry>> = match &self.selector {
            _ if !self.name.is_empty() => registry.storage.get(served.id, namespace, &self.name).into_iter().collect(),
            None => return Err("one of name or selector must be provided".to_owned()),
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(selector)) => {
                let range = Range { namespace, ..Range::default() };
                let all = registry.storage.list(served.id, &range, None).map(|listed| listed.entries);
                let mut all = all.unwrap_or_default();
                all.retain(|entry| selector.matches_fn(|key| entry.label(key)));
                all
            }
        };
        if found.is_empty() && self.required {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        // A webhook that converts may have to be waited for.
        aside(served.calls_out(), || {
            let read =
                |entry: &Arc<Entry>| served.live(entry).map(|object| Some(Value::Object(served.present(object))));
            found.iter().map(read).collect::<Result<_, _>>().map_err(|error| error.to_string())
        })
    }
}
