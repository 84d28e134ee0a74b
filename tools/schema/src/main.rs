//! Writes the table of Kubernetes types.
//!
//! Two published crates carry the Kubernetes API between them: `k8s-openapi` has the exact JSON
//! names, the types and formats, what is required, and the descriptions; `k8s-pb` has the protobuf
//! tags, the order in which the Go structs declare their fields, and the markers in their comments
//! (`+patchStrategy`, `+listType`, `+default`, ...). This program reads the sources of both as text
//! (`cargo metadata` says where they are), joins them, adds the few facts that neither carries
//! (`facts.txt`: which fields are pointers or keep their zero value, named Go types, Go names that
//! do not follow from the JSON name; `values.txt`: what the values of enumerations mean), and writes two files: the table, which `crates/schema` includes,
//! and the descriptions, which the embedded server does.
//!
//! ```text
//! k8s-openapi ─┐
//! k8s-pb ──────┼─> join ─> table.deflate (types, fields)   descriptions.deflate (prose for OpenAPI)
//! facts.txt ───┤
//! values.txt ──┘
//! ```
//!
//! Run it in this folder: `cargo run --release`. It prints what it could not join, and fails if that
//! leaves a field out.

mod facts;
mod join;
mod openapi;
mod protobuf;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = locate(here)?;
    let mut definitions = BTreeMap::new();
    for part in ["api", "apimachinery", "apiextensions_apiserver", "kube_aggregator"] {
        definitions.extend(openapi::read(&sources.openapi.join("src/v1_36").join(part))?);
    }
    let mut messages = protobuf::read(&sources.protobuf.join("src"))?;
    let mut facts = facts::read(&here.join("facts.txt"))?;
    facts::read_values(&here.join("values.txt"), &mut facts)?;
    facts::bring_up_to_date(&mut messages, &facts);
    let types = join::join(&definitions, &messages, &facts)?;
    let crates = here.join("../../crates");
    write::write(&types, &definitions, &crates.join("schema/src"), &crates.join("apiserver/src/schema"))?;
    println!("{} types, {} fields", types.len(), types.iter().map(|t| t.fields.len()).sum::<usize>());
    Ok(())
}

/// Where cargo keeps the sources of the two crates.
struct Sources {
    openapi: PathBuf,
    protobuf: PathBuf,
}

/// Asks cargo where the two crates are.
fn locate(here: &Path) -> Result<Sources, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--manifest-path"])
        .arg(here.join("Cargo.toml"))
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let find = |name: &str| {
        metadata["packages"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|p| p["name"] == name)
            .and_then(|p| p["manifest_path"].as_str())
            .and_then(|p| Path::new(p).parent())
            .map(Path::to_owned)
            .ok_or_else(|| format!("cargo metadata names no package {name}"))
    };
    Ok(Sources { openapi: find("k8s-openapi")?, protobuf: find("k8s-pb")? })
}
