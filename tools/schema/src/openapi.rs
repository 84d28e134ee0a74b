//! Reads the JSON side of the API from the sources of `k8s-openapi`.
//!
//! Each file holds one definition: its name in a header comment, its group, version and kind in
//! `impl Resource`, and its whole schema inside one `json_schema!({ ... })` call, which is JSON with
//! trailing commas and, for references, a Rust expression in parentheses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A definition of the API's OpenAPI document.
#[derive(Debug, Default, Clone)]
pub struct Definition {
    /// Its name, such as `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// Its properties by JSON name.
    pub properties: BTreeMap<String, Property>,
    /// The properties that must be there.
    pub required: Vec<String>,
    /// Group, version and kind, for kinds.
    pub gvk: Option<(String, String, String)>,
    /// Whether lists of it exist.
    pub listable: bool,
}

/// A property of a definition.
#[derive(Debug, Default, Clone)]
pub struct Property {
    /// What it says of itself.
    pub description: String,
}

/// All definitions below a folder, by the lower-case form of their name.
pub fn read(root: &Path) -> Result<BTreeMap<String, Definition>, String> {
    let mut out = BTreeMap::new();
    walk(root, &mut |text| {
        if let Some(definition) = definition(text)? {
            out.insert(definition.name.to_lowercase(), definition);
        }
        Ok(())
    })?;
    Ok(out)
}

/// Calls `f` with the text of every Rust file below a folder.
pub fn walk(root: &Path, f: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    let entries = fs::read_dir(root).map_err(|e| format!("{}: {e}", root.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            walk(&path, f)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            f(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

fn definition(text: &str) -> Result<Option<Definition>, String> {
    let Some(name) = text.lines().next().and_then(|l| l.strip_prefix("// Generated from definition ")) else {
        return Ok(None);
    };
    let Some(at) = text.find("json_schema!(") else { return Ok(None) };
    let mut parser = Parser { text: text.as_bytes(), at: at + "json_schema!(".len() };
    let schema = parser.value()?;
    let mut out = Definition {
        name: name.trim().to_owned(),
        description: schema.text("description"),
        listable: text.contains("impl crate::ListableResource for"),
        ..Definition::default()
    };
    let constant = |what: &str| {
        text.split_once(&format!("const {what}: &'static str = \""))
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(value, _)| value.to_owned())
    };
    if let (Some(group), Some(version), Some(kind)) = (constant("GROUP"), constant("VERSION"), constant("KIND")) {
        out.gvk = Some((group, version, kind));
    }
    if let Some(Node::Object(properties)) = schema.get("properties") {
        for (json, node) in properties {
            out.properties.insert(json.clone(), Property { description: node.text("description") });
        }
    }
    if let Some(Node::Array(required)) = schema.get("required") {
        out.required = required.iter().map(Node::as_text).collect();
    }
    Ok(Some(out))
}

/// A parsed piece of a schema.
enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
    /// A Rust expression; its description, where it sets one.
    Expression(Option<String>),
    Other,
}

impl Node {
    fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Self::Object(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }
    fn as_text(&self) -> String {
        match self {
            Self::Text(t) => t.clone(),
            _ => String::new(),
        }
    }
    fn text(&self, key: &str) -> String {
        match self {
            Self::Expression(Some(description)) if key == "description" => description.clone(),
            _ => self.get(key).map(Node::as_text).unwrap_or_default(),
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Result<u8, String> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied().ok_or_else(|| "the schema ends early".to_owned())
    }

    fn value(&mut self) -> Result<Node, String> {
        match self.peek()? {
            b'{' => {
                self.at += 1;
                let mut entries = Vec::new();
                while self.peek()? != b'}' {
                    let key = self.string()?;
                    if self.peek()? != b':' {
                        return Err(format!("no colon after {key}"));
                    }
                    self.at += 1;
                    entries.push((key, self.value()?));
                    if self.peek()? == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Ok(Node::Object(entries))
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while self.peek()? != b']' {
                    items.push(self.value()?);
                    if self.peek()? == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Ok(Node::Array(items))
            }
            b'"' => self.string().map(Node::Text),
            b'(' => self.expression(),
            _ => {
                // A literal, or a call such as `__gen.subschema_for::<...>()`.
                while !matches!(self.peek()?, b',' | b'}' | b']') {
                    self.at += 1;
                }
                Ok(Node::Other)
            }
        }
    }

    /// A parenthesised Rust expression: skipped, but for the string after `"description".into()`.
    fn expression(&mut self) -> Result<Node, String> {
        let mut depth = 0;
        let mut strings = Vec::new();
        loop {
            match self.peek()? {
                b'(' => depth += 1,
                b')' => depth -= 1,
                b'"' => {
                    strings.push(self.string()?);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                let description = match strings.as_slice() {
                    [key, value] if key == "description" => Some(value.clone()),
                    _ => None,
                };
                return Ok(Node::Expression(description));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek()? != b'"' {
            return Err("expected a string".to_owned());
        }
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = *self.text.get(self.at).ok_or("an unterminated string")?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).map_err(|e| e.to_string()),
                b'\\' => {
                    let escape = *self.text.get(self.at).ok_or("an unterminated escape")?;
                    self.at += 1;
                    match escape {
                        b'n' => out.push(b'\n'),
                        b't' => out.push(b'\t'),
                        b'r' => out.push(b'\r'),
                        b'u' => {
                            let rest = &self.text[self.at..];
                            let end = rest.iter().position(|b| *b == b'}').ok_or("an unterminated escape")?;
                            let hex = std::str::from_utf8(&rest[1..end]).map_err(|e| e.to_string())?;
                            let code = u32::from_str_radix(hex, 16).map_err(|e| e.to_string())?;
                            let c = char::from_u32(code).ok_or("not a character")?;
                            out.extend(c.to_string().into_bytes());
                            self.at += end + 1;
                        }
                        other => out.push(other),
                    }
                }
                other => out.push(other),
            }
        }
    }
}
