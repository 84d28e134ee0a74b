//! Reads `facts.txt` and `values.txt`: what the two crates do not say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::protobuf::{Field, Message, Shape, parse};

/// What is said of one field, or of one type.
#[derive(Debug, Default, Clone)]
pub struct Fact {
    /// The Go name.
    pub go: Option<String>,
    /// The named Go type of a scalar, list or map, with its package: `v1.RestartPolicy`.
    pub named: Option<String>,
    /// The named Go type of a list's elements or a map's keys.
    pub key: Option<String>,
    /// Whether the Go field is a pointer.
    pub pointer: Option<bool>,
    /// Whether the JSON tag says `omitempty`.
    pub omit: Option<bool>,
    /// Whether the JSON tag says `omitzero`.
    pub zero: bool,
    /// Whether OpenAPI lists it as required.
    pub required: Option<bool>,
    /// The patch strategy of the struct tag, where the marker is not that.
    pub strategy: Option<String>,
    /// The merge key of the struct tag, where the marker is not that.
    pub merge_key: Option<String>,
    /// A field that is newer than the protobuf crate: its tag.
    pub tag: Option<u32>,
    /// The type of such a field.
    pub shape: Option<Shape>,
    /// The markers of such a field.
    pub markers: Vec<String>,
    /// Its default in JSON, where the marker refers to a Go constant.
    pub default: Option<String>,
    /// Its values, comma separated, where it is an enumeration.
    pub values: Option<String>,
    /// What is said of some of these values.
    pub words: BTreeMap<String, String>,
    /// Whether the field is older than the JSON crate, and gone.
    pub gone: bool,
}

/// Brings the messages up to the version of the definitions: adds fields and messages, takes some away.
pub fn bring_up_to_date(messages: &mut BTreeMap<String, Message>, facts: &BTreeMap<String, Fact>) {
    for (name, fact) in facts {
        let Some((owner, field)) = name.rsplit_once('.') else { continue };
        let Shape::Message(key) = parse(&format!("@{owner}")).unwrap_or_default() else { continue };
        if fact.gone
            && let Some(message) = messages.get_mut(&key)
        {
            message.fields.retain(|f| f.name != field);
        }
        if let (Some(tag), Some(shape)) = (fact.tag, &fact.shape) {
            let message = messages.entry(key).or_insert_with_key(|key| Message {
                package: key.rsplit_once('.').map_or("", |(p, _)| p).to_owned(),
                name: owner.rsplit_once('.').map_or(owner, |(_, n)| n).to_owned(),
                ..Message::default()
            });
            message.fields.push(Field {
                name: field.to_owned(),
                markers: fact.markers.clone(),
                tag,
                shape: shape.clone(),
                ..Field::default()
            });
            // Older fields stay as they were declared; new ones come last, in the order of their tags.
            let new = |f: &Field| facts.get(&format!("{owner}.{}", f.name)).is_some_and(|f| f.tag.is_some());
            let mut fields = std::mem::take(&mut message.fields);
            fields.sort_by_key(|f| if new(f) { f.tag } else { 0 });
            message.fields = fields;
        }
    }
}

/// Facts by `package.Type.jsonField` (or `package.Type`).
pub fn read(path: &Path) -> Result<BTreeMap<String, Fact>, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut out: BTreeMap<String, Fact> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let fact = out.entry(name.to_owned()).or_default();
        for word in words {
            match word.split_once('=') {
                Some(("go", v)) => fact.go = Some(v.to_owned()),
                Some(("type", v)) => fact.named = Some(v.to_owned()),
                Some(("key", v)) => fact.key = Some(v.to_owned()),
                Some(("strategy", v)) => fact.strategy = Some(v.to_owned()),
                Some(("mergeKey", v)) => fact.merge_key = Some(v.to_owned()),
                Some(("enum", v)) => fact.values = Some(v.replace('~', " ")),
                Some(("default", v)) => fact.default = Some(v.to_owned()),
                Some(("tag", v)) => fact.tag = v.parse().ok(),
                Some(("shape", v)) => fact.shape = Some(parse(v)?),
                Some(("marker", v)) => fact.markers.push(v.to_owned()),
                None => match word {
                    "pointer" => fact.pointer = Some(true),
                    "value" => fact.pointer = Some(false),
                    "omitempty" => fact.omit = Some(true),
                    "kept" => fact.omit = Some(false),
                    "omitzero" => fact.zero = true,
                    "required" => fact.required = Some(true),
                    "optional" => fact.required = Some(false),
                    "gone" => fact.gone = true,
                    _ => return Err(format!("{}:{}: {word}?", path.display(), number + 1)),
                },
                Some(_) => return Err(format!("{}:{}: {word}?", path.display(), number + 1)),
            }
        }
    }
    Ok(out)
}

/// Adds what is said of the values of enumerations.
pub fn read_values(path: &Path, facts: &mut BTreeMap<String, Fact>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut fields: Vec<&str> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let Some(value) = line.strip_prefix('\t') else {
            match line {
                "" => fields.clear(),
                field => fields.push(field),
            }
            continue;
        };
        let (value, words) = value.split_once('\t').ok_or_else(|| format!("{}:{}?", path.display(), number + 1))?;
        for field in &fields {
            let fact = facts.entry((*field).to_owned()).or_default();
            fact.words.insert(value.to_owned(), words.to_owned());
        }
    }
    Ok(())
}

/// A description, and after it the values of an enumeration.
pub fn with_values(description: &str, fact: &Fact) -> String {
    let mut out = description.to_owned();
    if let Some(values) = fact.values.as_deref().filter(|values| !description.is_empty() && *values != "-") {
        out.push_str("\n\nPossible enum values:");
        for value in values.split(',') {
            let words = fact.words.get(value).map(|words| format!(" {words}")).unwrap_or_default();
            out.push_str(&format!("\n - `\"{value}\"`{words}"));
        }
    }
    out
}
