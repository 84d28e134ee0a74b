//! What only pods have: binding, eviction and a log.

use serde_json::{Value, json};

use super::options::{DeleteOptions, WriteOptions};
use super::update::Update;
use super::{Registry, Served, set_metadata};
use crate::field::{FieldError, aggregate};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part};
use crate::status::{ApiError, GroupResource};

impl Registry {
    /// Binds a pod to a node: `POST .../binding`.
    ///
    /// # Errors
    /// 404; 409 for a pod that is bound already, is being deleted, or is not the one that was meant.
    pub fn bind(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        binding: &Object,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        let meta = metadata(binding);
        if meta.text("name") != name {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let target = binding.object("target");
        let text = |key: &str| target.map_or("", |t| t.text(key));
        let mut errors = Vec::new();
        if !matches!(text("kind"), "" | "Node") {
            errors.push(FieldError::not_supported("target.kind", text("kind"), &["Node", "<empty>"]));
        }
        if text("name").is_empty() {
            errors.push(FieldError::required("target.name", ""));
        }
        if !errors.is_empty() {
            return Err(ApiError::plain(aggregate(&errors)));
        }
        let conflict = |why: &str| ApiError::conflict(GroupResource { group: "", resource: "pods/binding" }, name, why);
        loop {
            let entry = self.get(served, namespace, name)?;
            let (uid, version) = (meta.text("uid"), meta.text("resourceVersion"));
            let mut pod = entry.object();
            if !uid.is_empty() && uid != &*entry.uid {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", entry.uid);
                return Err(ApiError::conflict(served.group_resource(), name, &storage_words(namespace, name, &why)));
            }
            if !version.is_empty() && version != entry.version.to_string() {
                let why = format!(
                    "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                    entry.version
                );
                return Err(ApiError::conflict(served.group_resource(), name, &storage_words(namespace, name, &why)));
            }
            if metadata(&pod).contains_key("deletionTimestamp") {
                return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
            }
            let spec = pod.object_or_new("spec");
            let bound = spec.text("nodeName");
            if !bound.is_empty() {
                return Err(conflict(&format!(
                    "pod {name} is already assigned to node {}",
                    crate::field::go_quote(bound)
                )));
            }
            if !spec.list("schedulingGates").is_empty() {
                return Err(conflict(&format!("pod {name} has non-empty .spec.schedulingGates")));
            }
            spec.insert("nodeName".to_owned(), Value::from(text("name")));
            for map in ["annotations", "labels"] {
                if let Some(pairs) = meta.object(map).filter(|pairs| !pairs.is_empty()) {
                    let into = pod.object_or_new("metadata").object_or_new(map);
                    into.extend(pairs.iter().map(|(k, v)| (k.clone(), v.clone())));
                }
            }
            let now = self.now_text();
            let status = pod.object_or_new("status");
            status.remove("nominatedNodeName");
            set_condition(status, &json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}), &now);
            if options.dry_run
                || self.storage.update(served.id, served.draft(&pod, Some(&entry))?, entry.version).is_ok()
            {
                return Ok(());
            }
        }
    }

    /// Evicts a pod: `POST .../eviction`. It is marked as disrupted, then deleted.
    ///
    /// # Errors
    /// 404, and those of a deletion.
    pub fn evict(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        eviction: &Object,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        if metadata(eviction).text("name") != name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut delete = match eviction.object("deleteOptions") {
            Some(body) => DeleteOptions::from_body(body)?,
            None => DeleteOptions::default(),
        };
        delete.dry_run |= options.dry_run;
        if !delete.dry_run {
            let now = self.now_text();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            });
            // The server's own doing: no manager is recorded for it.
            let own = WriteOptions::default();
            let update = Update { namespace, name, part: Part::Status, subresource: "", options: &own };
            let marked = self.change(served, update, None, &mut Vec::new(), |live, _| {
                let mut pod = live.clone();
                let uid = metadata(live).text("uid");
                if let Some(wanted) = delete.uid.as_deref().filter(|wanted| *wanted != uid) {
                    let why = format!(
                        "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
                    );
                    return Err(ApiError::conflict(served.group_kind(), name, &why));
                }
                set_condition(pod.object_or_new("status"), &condition, &now);
                if let Some(version) = &delete.resource_version {
                    set_metadata(&mut pod, "resourceVersion", Some(Value::from(version.as_str())));
                }
                Ok(pod)
            })?;
            if delete.resource_version.is_some() {
                delete.resource_version = Some(metadata(&marked.object()).text("resourceVersion").to_owned());
            }
        }
        self.delete(served, namespace, name, &delete).map(|_| ())
    }

    /// A pod's log (API-23): a line that says where the pod is simulated.
    ///
    /// # Errors
    /// 404; 400 for a pod that no node runs yet, or a container that it does not have.
    pub fn log(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        container: Option<&str>,
    ) -> Result<String, ApiError> {
        let pod = self.get(served, namespace, name)?.object();
        let empty = Object::new();
        let spec = pod.object("spec").unwrap_or(&empty);
        let names: Vec<&str> =
            ["containers", "initContainers"].iter().flat_map(|list| spec.items(list)).map(|c| c.text("name")).collect();
        match container.filter(|c| !c.is_empty()) {
            Some(wanted) if !names.contains(&wanted) => {
                return Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")));
            }
            None if spec.list("containers").len() > 1 => {
                let all: Vec<&str> = spec.items("containers").map(|c| c.text("name")).collect();
                let message =
                    format!("a container name must be specified for pod {name}, choose one of: [{}]", all.join(" "));
                return Err(ApiError::bad_request(message));
            }
            _ => {}
        }
        match spec.text("nodeName") {
            "" => Ok(String::new()),
            node => Ok(format!("pod {namespace}/{name} is simulated on node {node}: its containers do not run\n")),
        }
    }
}

fn storage_words(namespace: &str, name: &str, why: &str) -> String {
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}

/// Adds a condition or replaces the one of its type; its transition time moves only with its status.
fn set_condition(status: &mut Object, condition: &Value, now: &str) {
    let mut condition = condition.clone();
    condition["lastTransitionTime"] = json!(now);
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(found) => {
            if found["status"] == condition["status"] {
                condition["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = condition;
        }
        None => conditions.push(condition),
    }
}
