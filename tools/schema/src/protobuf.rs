//! Reads the protobuf side of the API from the sources of `k8s-pb`: messages, fields in declaration
//! order, tags, types, and the markers in the comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A protobuf message, which is a Go struct.
#[derive(Debug, Default, Clone)]
pub struct Message {
    /// The Go package in OpenAPI's notation, such as `io.k8s.api.core.v1`.
    pub package: String,
    /// Its name, as prost spells it.
    pub name: String,
    /// The first lines of prose of its comment, joined.
    pub doc: String,
    /// The markers of its comment, without the plus.
    pub markers: Vec<String>,
    /// Its fields in the order in which the Go struct declares them.
    pub fields: Vec<Field>,
}

/// A field of a message.
#[derive(Debug, Default, Clone)]
pub struct Field {
    /// Its name, as prost spells it (`host_ip`).
    pub name: String,
    /// Prose of its comment.
    pub doc: String,
    /// The markers of its comment, without the plus.
    pub markers: Vec<String>,
    /// The protobuf field number.
    pub tag: u32,
    /// Its type.
    pub shape: Shape,
}

/// The type of a field.
#[derive(Debug, Default, Clone, PartialEq)]
pub enum Shape {
    /// A string.
    #[default]
    String,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A boolean.
    Bool,
    /// A 64-bit float.
    Double,
    /// Bytes.
    Bytes,
    /// Another message, by the lower-case form of its full name.
    Message(String),
    /// A list.
    List(Box<Shape>),
    /// A map from strings.
    Map(Box<Shape>),
}

/// Reads a type in the facts' notation: `s`, `[s`, `{q`, `@core.v1.PodSchedulingGroup`.
pub fn parse(text: &str) -> Result<Shape, String> {
    let mut chars = text.chars();
    let special = |name: &str| Shape::Message(format!("io.k8s.apimachinery.pkg.{name}"));
    Ok(match chars.next() {
        Some('s') => Shape::String,
        Some('i') => Shape::Int32,
        Some('l') => Shape::Int64,
        Some('b') => Shape::Bool,
        Some('q') => special("api.resource.quantity"),
        Some('[') => Shape::List(Box::new(parse(chars.as_str())?)),
        Some('{') => Shape::Map(Box::new(parse(chars.as_str())?)),
        Some('@') => {
            let name = chars.as_str().to_lowercase();
            let root = match name.split('.').next().unwrap_or_default() {
                "meta" => "io.k8s.apimachinery.pkg.apis",
                "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
                _ => "io.k8s.api",
            };
            Shape::Message(format!("{root}.{name}"))
        }
        _ => return Err(format!("not a type: {text}")),
    })
}

/// All messages below a folder, by the lower-case form of their full name.
pub fn read(root: &Path) -> Result<BTreeMap<String, Message>, String> {
    let mut out = BTreeMap::new();
    read_folder(root, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn read_folder(folder: &Path, path: &mut Vec<String>, out: &mut BTreeMap<String, Message>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let file = entry.map_err(|e| e.to_string())?.path();
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if file.is_dir() {
            path.push(name);
            read_folder(&file, path, out)?;
            path.pop();
        } else if name == "mod.rs" {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            for message in messages(&text, path)? {
                out.insert(format!("{}.{}", message.package, message.name).to_lowercase(), message);
            }
        }
    }
    Ok(())
}

fn messages(text: &str, path: &[String]) -> Result<Vec<Message>, String> {
    let package = package(path);
    let mut out = Vec::new();
    let mut doc = Vec::new();
    let mut attribute = String::new();
    let mut open: Option<Message> = None;
    let mut pending = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            doc.push(comment.trim().to_owned());
        } else if line.starts_with("#[prost(") {
            attribute = line.to_owned();
        } else if line.starts_with("#[") {
        } else if let Some(rest) = line.strip_prefix("pub struct ") {
            let (prose, markers) = split(&mut doc);
            let name = rest.trim_end_matches(" {}").trim_end_matches(" {").to_owned();
            let message = Message { package: package.clone(), name, doc: prose, markers, fields: Vec::new() };
            if rest.ends_with("{}") {
                out.push(message);
            } else {
                open = Some(message);
            }
        } else if line == "}" {
            out.extend(open.take());
            doc.clear();
        } else if let Some(message) = &mut open {
            // A field may be broken over several lines.
            pending.push_str(line);
            if !line.ends_with(',') || pending.matches('<').count() != pending.matches('>').count() {
                continue;
            }
            let whole = std::mem::take(&mut pending);
            let (name, ty) = whole
                .strip_prefix("pub ")
                .and_then(|f| f.split_once(':'))
                .ok_or_else(|| format!("not a field: {whole}"))?;
            let (prose, markers) = split(&mut doc);
            let tag = attribute
                .split_once("tag = \"")
                .and_then(|(_, t)| t.split_once('"'))
                .and_then(|(t, _)| t.parse().ok())
                .ok_or_else(|| format!("no tag: {attribute}"))?;
            let shape = shape(&attribute, ty.trim().trim_end_matches(','), path)?;
            let name = name.trim().trim_start_matches("r#").to_owned();
            message.fields.push(Field { name, doc: prose, markers, tag, shape });
        } else {
            doc.clear();
        }
    }
    Ok(out)
}

/// A module's path as OpenAPI names its Go package: a folder of Go may have a dash in its name.
fn package<S: AsRef<str>>(path: &[S]) -> String {
    let parts = path.iter().map(|part| match part.as_ref() {
        "apiextensions_apiserver" => "apiextensions-apiserver",
        "kube_aggregator" => "kube-aggregator",
        other => other,
    });
    format!("io.k8s.{}", parts.collect::<Vec<_>>().join("."))
}

/// Separates a comment's prose from its markers.
fn split(doc: &mut Vec<String>) -> (String, Vec<String>) {
    let (markers, prose): (Vec<String>, Vec<String>) = doc.drain(..).partition(|l| l.starts_with('+'));
    let prose: Vec<String> = prose.into_iter().filter(|l| !l.is_empty()).collect();
    (prose.join(" "), markers.into_iter().map(|m| m[1..].trim().to_owned()).collect())
}

fn shape(attribute: &str, ty: &str, path: &[String]) -> Result<Shape, String> {
    let inner = attribute.trim_start_matches("#[prost(");
    if let Some(rest) = inner.strip_prefix("btree_map = \"") {
        let value = rest.split_once(", ").and_then(|(_, v)| v.split_once('"')).map_or("", |(v, _)| v);
        let value_type = ty.trim_end_matches('>').trim_end_matches(',');
        let value_type = value_type.rsplit_once(',').map_or("", |(_, v)| v.trim());
        return Ok(Shape::Map(Box::new(scalar(value, value_type, path)?)));
    }
    let word = inner.split([',', ' ', '=', ')']).next().unwrap_or_default();
    let repeated = inner.contains("repeated");
    let bare = if repeated || inner.contains("optional") {
        ty.split_once('<').map_or(ty, |(_, t)| t.strip_suffix('>').unwrap_or(t)).trim_end_matches(',')
    } else {
        ty
    };
    let bare = bare.strip_prefix("::prost::alloc::boxed::Box<").and_then(|b| b.strip_suffix('>')).unwrap_or(bare);
    let one = scalar(word, bare, path)?;
    Ok(if repeated { Shape::List(Box::new(one)) } else { one })
}

fn scalar(word: &str, ty: &str, path: &[String]) -> Result<Shape, String> {
    Ok(match word {
        "string" => Shape::String,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "bool" => Shape::Bool,
        "double" | "float" => Shape::Double,
        "bytes" => Shape::Bytes,
        "message" => {
            // A path relative to this module: each `super` goes up one.
            let mut at: Vec<&str> = path.iter().map(String::as_str).collect();
            for part in ty.trim().split("::") {
                match part {
                    "super" => {
                        at.pop();
                    }
                    "crate" => at.clear(),
                    other => at.push(other),
                }
            }
            Shape::Message(package(&at).to_lowercase())
        }
        other => return Err(format!("unknown protobuf type {other} for {ty}")),
    })
}
