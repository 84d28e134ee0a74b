//! What only pods have: binding and a log. Eviction has a file of its own.

use muster_tree::{Value, json};

use super::options::WriteOptions;
use super::update::precondition_failed;
use super::{Registry, Served, in_time};
use crate::field::{FieldError, aggregate};
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
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
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        let conflict = |why: &str| ApiError::conflict(GroupResource { group: "", resource: "pods/binding" }, name, why);
        loop {
            let entry = self.get(served, namespace, name)?;
            let (uid, version) = (meta.text("uid"), meta.text("resourceVersion"));
            let mut pod = entry.object();
            let stored = entry.version.to_string();
            for (what, wanted, found) in [("UID", uid, &*entry.uid), ("ResourceVersion", version, &*stored)] {
                if !wanted.is_empty() && wanted != found {
                    let object = (namespace, name);
                    return Err(precondition_failed(served, object, options.dry_run, what, (wanted, found)));
                }
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
            spec.insert("nodeName", Value::from(text("name")));
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
            if options.dry_run {
                return Ok(());
            }
            let bound = self.storage.update(served.id, served.draft(&pod, Some(&entry))?, entry.version);
            if in_time(bound)?.is_some() {
                return Ok(());
            }
        }
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
        match self.node_of(served, namespace, name, container.or(Some("")))?.as_str() {
            "" => Ok(String::new()),
            node => Ok(format!("pod {namespace}/{name} is simulated on node {node}: its containers do not run\n")),
        }
    }

    /// The node of a pod that somebody wants to reach; empty where there is none yet. With a container, that has to be one of
    /// its own; the empty name means the only one.
    ///
    /// # Errors
    /// 404; 400 for a container that the pod does not have.
    pub fn node_of(
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
        match container {
            Some(wanted) if !wanted.is_empty() && !names.contains(&wanted) => {
                return Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")));
            }
            Some("") if spec.list("containers").len() > 1 => {
                let all: Vec<&str> = spec.items("containers").map(|c| c.text("name")).collect();
                let message =
                    format!("a container name must be specified for pod {name}, choose one of: [{}]", all.join(" "));
                return Err(ApiError::bad_request(message));
            }
            _ => {}
        }
        Ok(spec.text("nodeName").to_owned())
    }
}

/// Adds a condition or replaces the one of its type; its transition time moves only with its status.
pub(super) fn set_condition(status: &mut Object, condition: &Value, now: &str) {
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
