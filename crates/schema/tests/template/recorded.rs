//! What Kubernetes v1.36.2 made of templates.

use serde_json::Value;

/// A stored template and the hash that Kubernetes gave it.
pub(crate) struct Recorded {
    /// The template's JSON, as the server stored it.
    pub(crate) template: String,
    pub(crate) collision_count: Option<i32>,
    pub(crate) hash: String,
}

/// Deployments that a real server stored, with the hashes that the real controller chose.
pub(crate) fn deployments() -> Vec<Recorded> {
    entries(include_str!("../vectors/pod-template-hash.json"), |entry| &entry["stored"]["template"])
}

/// Random templates over every field of a pod template, as the server stores them, with the hashes that
/// the reference's `ComputeHash` gives them.
pub(crate) fn templates() -> Vec<Recorded> {
    entries(include_str!("../vectors/template-hashes.json"), |entry| &entry["template"])
}

fn entries(text: &str, template: impl Fn(&Value) -> &Value) -> Vec<Recorded> {
    let file: Value = serde_json::from_str(text).expect("the vectors are JSON");
    let entries = file["vectors"].as_array().expect("a list of vectors");
    let read = |entry: &Value| Recorded {
        template: template(entry).to_string(),
        collision_count: entry["collisionCount"].as_i64().and_then(|n| i32::try_from(n).ok()),
        hash: entry["hash"].as_str().expect("every vector has a hash").to_owned(),
    };
    entries.iter().map(read).collect()
}
