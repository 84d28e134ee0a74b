//! The objects of manifests: read, and held against the types of Kubernetes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::{apps, core, flowcontrol, policy, rbac};
use muster_apiserver::schema::{yaml_duplicates, yaml_to_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One object, and the file that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) file: String,
    pub(crate) value: Value,
}

impl Object {
    pub(crate) fn kind(&self) -> &str {
        self.value["kind"].as_str().expect("an object has a kind")
    }

    pub(crate) fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().expect("an object has a name")
    }

    /// The path of its collection on a server.
    pub(crate) fn collection(&self) -> String {
        let version = self.value["apiVersion"].as_str().expect("an object has a version");
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let plural = format!("{}s", self.kind().to_lowercase());
        match self.value["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{version}/{plural}"),
        }
    }
}

/// A folder of the repository.
pub(crate) fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Every object of a folder of manifests: those that its kustomization names, or all where it has none.
pub(crate) fn manifests(path: &str) -> Vec<Object> {
    let folder = folder(path);
    let kustomization = fs::read_to_string(folder.join("kustomization.yaml")).ok().map(|text| parse(&text));
    let mut files: Vec<String> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".yaml") && name != "kustomization.yaml")
        .collect();
    files.sort();
    if let Some(kustomization) = kustomization {
        let listed = kustomization["resources"].as_array().expect("a kustomization has resources");
        let mut listed: Vec<&str> = listed.iter().map(|name| name.as_str().expect("a name")).collect();
        listed.sort_unstable();
        assert_eq!(listed, files, "{path}/kustomization.yaml names every file");
    }
    let read = |name: &String| fs::read_to_string(folder.join(name)).expect("a file just listed");
    files.iter().flat_map(|name| documents(name, &read(name))).collect()
}

/// The objects of a text, parted by `---`.
pub(crate) fn documents(file: &str, text: &str) -> Vec<Object> {
    let parts = text.split("\n---\n").map(parse).filter(|value| !value.is_null());
    parts.map(|value| Object { file: file.to_owned(), value }).collect()
}

/// One YAML document as JSON; a key that is there twice is an error.
pub(crate) fn parse(yaml: &str) -> Value {
    let twice = yaml_duplicates(yaml.as_bytes());
    assert!(twice.is_empty(), "keys that are there twice: {twice:?}\n{yaml}");
    let json = yaml_to_json(yaml.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{yaml}"));
    serde_json::from_slice(&json).expect("YAML became JSON")
}

/// The objects by what identifies them.
pub(crate) fn by_identity(objects: Vec<Object>) -> BTreeMap<(String, String), Value> {
    let count = objects.len();
    let by: BTreeMap<_, _> = objects
        .into_iter()
        .map(|object| ((object.kind().to_owned(), object.name().to_owned()), object.value))
        .collect();
    assert_eq!(by.len(), count, "an object is there twice");
    by
}

/// Holds an object against its type, where Kubernetes has one: every field of it must be known to the type. False for
/// kinds that are not Kubernetes' own.
pub(crate) fn is_of_its_type(object: &Object) -> bool {
    match object.kind() {
        "ClusterRole" => same::<rbac::v1::ClusterRole>(object),
        "ClusterRoleBinding" => same::<rbac::v1::ClusterRoleBinding>(object),
        "ConfigMap" => same::<core::v1::ConfigMap>(object),
        "Deployment" => same::<apps::v1::Deployment>(object),
        "FlowSchema" => same::<flowcontrol::v1::FlowSchema>(object),
        "Pod" => same::<core::v1::Pod>(object),
        "PodDisruptionBudget" => same::<policy::v1::PodDisruptionBudget>(object),
        "Role" => same::<rbac::v1::Role>(object),
        "RoleBinding" => same::<rbac::v1::RoleBinding>(object),
        "Service" => same::<core::v1::Service>(object),
        "ServiceAccount" => same::<core::v1::ServiceAccount>(object),
        _ => return false,
    }
    true
}

/// Reading an object into its type and writing it again drops what the type does not know.
fn same<T: DeserializeOwned + Serialize>(object: &Object) {
    let Object { file, value } = object;
    let typed: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{file}: {error}: {value}"));
    let again = serde_json::to_value(typed).expect("a type of Kubernetes is JSON");
    assert_eq!(value, &again, "{file}: left as written, right what its type knows of it");
}
