//! Manifests: files of YAML or JSON documents, read so that an error can name file, document, line and field.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser};

/// One object of a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// Where it came from.
    pub(crate) place: Place,
    /// The object, as JSON.
    pub(crate) value: Value,
    /// Field path (`spec.template.spec.containers[0].name`) to line of the file, from 1.
    lines: BTreeMap<String, usize>,
}

/// A file and the number of a document in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file as it was named; `standard input` for `-`.
    pub(crate) file: String,
    /// The document's number in the file, from 1.
    pub(crate) document: usize,
    /// The line at which it begins, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}, line {}", self.file, self.document, self.line)
    }
}

impl Document {
    /// The place of a field: the line of the nearest ancestor that the document holds.
    pub(crate) fn place_of(&self, field: &str) -> Place {
        let mut path = field;
        loop {
            if let Some(line) = self.lines.get(path) {
                return Place { line: *line, ..self.place.clone() };
            }
            match path.rfind(['.', '[']) {
                Some(cut) => path = &path[..cut],
                None => return self.place.clone(),
            }
        }
    }

    /// A string field at the top or in the metadata; empty where it is absent.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The object for a sentence: `ReplicaSet "web"`.
    pub(crate) fn title(&self) -> String {
        let name = match self.text("/metadata/name") {
            "" => self.text("/metadata/generateName"),
            name => name,
        };
        format!("{} {name:?}", self.text("/kind"))
    }
}

/// Reads every object of a file; `-` is standard input. A `List` is taken apart.
///
/// # Errors
/// Where the file cannot be read, or a document is not an object with `apiVersion` and `kind`.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>> {
    let (name, text) = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input: cannot be read")?;
        ("standard input".to_owned(), text)
    } else {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("{name}: cannot be read"))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            anyhow::anyhow!(
                "{name}: found bytes that are no UTF-8 at offset {}, expected YAML or JSON text",
                e.utf8_error().valid_up_to()
            )
        })?;
        (name, text)
    };
    let documents = parse(&name, &text)?;
    if documents.is_empty() {
        bail!("{name}: found no object, expected at least one YAML or JSON document");
    }
    Ok(documents)
}

/// Takes a text apart into its objects.
fn parse(file: &str, text: &str) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for (number, (first_line, part)) in split(text).into_iter().enumerate() {
        let mut place = Place { file: file.to_owned(), document: number + 1, line: first_line };
        if part.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        let skipped = part.lines().take_while(|l| l.trim().is_empty() || l.trim_start().starts_with('#')).count();
        place.line += skipped;
        let lines = lines(part, first_line)
            .map_err(|(line, message)| anyhow::anyhow!("{}: {message}", Place { line, ..place.clone() }))?;
        let json = muster_apiserver::schema::yaml_to_json(part.as_bytes())
            .map_err(|message| anyhow::anyhow!("{place}: {message}"))?;
        let value: Value = serde_json::from_slice(&json).with_context(|| place.to_string())?;
        if value.is_null() {
            continue;
        }
        let document = Document { place, value, lines };
        match document.text("/kind").strip_suffix("List") {
            Some(_) if document.value.get("items").is_some() => documents.extend(items(&document)?),
            _ => documents.push(checked(document)?),
        }
    }
    Ok(documents)
}

/// The objects of a `List`, each with the lines of its own fields.
fn items(list: &Document) -> Result<Vec<Document>> {
    let Some(Value::Array(items)) = list.value.get("items") else {
        bail!("{}: items: found {}, expected a list of objects", list.place_of("items"), list.value["items"]);
    };
    let kind = list.text("/kind").strip_suffix("List").unwrap_or_default().to_owned();
    let mut documents = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let prefix = format!("items[{index}]");
        let mut value = item.clone();
        // The items of a typed list (PodList) need not repeat their type.
        if let (Value::Object(fields), false) = (&mut value, kind.is_empty()) {
            fields.entry("kind").or_insert_with(|| kind.clone().into());
            fields.entry("apiVersion").or_insert_with(|| list.value["apiVersion"].clone());
        }
        let lines = list
            .lines
            .iter()
            .filter_map(|(path, line)| Some((path.strip_prefix(&prefix)?.strip_prefix('.')?.to_owned(), *line)))
            .collect();
        documents.push(checked(Document { place: list.place_of(&prefix), value, lines })?);
    }
    Ok(documents)
}

/// A document with what every object needs.
fn checked(document: Document) -> Result<Document> {
    if !document.value.is_object() {
        bail!(
            "{}: found {}, expected an object with apiVersion, kind and metadata",
            document.place,
            short(&document.value)
        );
    }
    for field in ["apiVersion", "kind"] {
        match document.value.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {}
            None => bail!("{}: {field}: found nothing, expected a string such as {}", document.place, sample(field)),
            Some(other) => {
                bail!(
                    "{}: {field}: found {}, expected a string such as {}",
                    document.place_of(field),
                    short(other),
                    sample(field)
                )
            }
        }
    }
    if document.text("/metadata/name").is_empty() && document.text("/metadata/generateName").is_empty() {
        bail!(
            "{}: {}: metadata.name: found nothing, expected a name",
            document.place_of("metadata.name"),
            document.text("/kind")
        );
    }
    Ok(document)
}

fn sample(field: &str) -> &'static str {
    if field == "kind" { "\"ReplicaSet\"" } else { "\"apps/v1\"" }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

/// The documents of a text, each with the line it begins at: parted, as kubectl does, at lines that begin with `---`,
/// and objects of JSON that follow each other (those of `jq -c`) where each ends.
fn split(text: &str) -> Vec<(usize, &str)> {
    let parts = at_separators(text).into_iter();
    parts.flat_map(|part| in_a_row(part).unwrap_or_else(|| vec![part])).collect()
}

/// Two and more objects of JSON, one behind the other.
fn in_a_row((first_line, text): (usize, &str)) -> Option<Vec<(usize, &str)>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let (mut parts, mut line, mut start) = (Vec::new(), first_line, 0);
    while let Some(object) = objects.next() {
        object.ok()?;
        let part = &text[start..objects.byte_offset()];
        parts.push((line, part));
        line += part.matches('\n').count();
        start += part.len();
    }
    (parts.len() > 1).then_some(parts)
}

fn at_separators(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut first_line = 1;
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(behind) = line.strip_prefix("---") {
            parts.push((first_line, &text[start..at]));
            // What stands behind the dashes on their own line belongs to the next document.
            let content = !behind.trim().is_empty() && !behind.trim_start().starts_with('#');
            start = if content { at + 3 } else { at + line.len() };
            first_line = number + if content { 1 } else { 2 };
        }
        at += line.len();
    }
    parts.push((first_line, &text[start..]));
    // Before the first separator there is often nothing at all: that is no document.
    if parts.len() > 1 && parts[0].1.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
        parts.remove(0);
    }
    parts
}

/// The line of every field of one document, or the line and message of what is wrong with its syntax.
fn lines(text: &str, first_line: usize) -> Result<BTreeMap<String, usize>, (usize, String)> {
    /// Where in a collection the parser stands.
    enum Frame {
        Map { path: String, key: Option<String> },
        List { path: String, next: usize },
    }
    let mut lines = BTreeMap::new();
    let mut frames: Vec<Frame> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|e| (first_line + e.marker().line().saturating_sub(1), e.info().to_owned()))?;
        let line = first_line + span.start.line().saturating_sub(1);
        let (begins, scalar) = match &event {
            Event::Scalar(value, ..) => (true, Some(value.as_ref().to_owned())),
            Event::Alias(..) => (true, None),
            Event::MappingStart(..) | Event::SequenceStart(..) => (true, None),
            Event::MappingEnd | Event::SequenceEnd => {
                frames.pop();
                (false, None)
            }
            _ => (false, None),
        };
        if !begins {
            continue;
        }
        // A node: a key of the map it stands in, that key's value, or the next item of a list.
        let path = match frames.last_mut() {
            None => String::new(),
            Some(Frame::Map { path, key }) => match key.take() {
                None => {
                    let name = scalar.unwrap_or_default();
                    if let Some(first) = lines.insert(join(path, &name), line).filter(|_| !name.is_empty()) {
                        return Err((
                            line,
                            format!("{}: found again, expected once; the first is in line {first}", join(path, &name)),
                        ));
                    }
                    *key = Some(name);
                    continue;
                }
                Some(name) => join(path, &name),
            },
            Some(Frame::List { path, next }) => {
                let item = format!("{path}[{next}]");
                *next += 1;
                lines.insert(item.clone(), line);
                item
            }
        };
        match event {
            Event::MappingStart(..) => frames.push(Frame::Map { path, key: None }),
            Event::SequenceStart(..) => frames.push(Frame::List { path, next: 0 }),
            _ => {}
        }
    }
    Ok(lines)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
# A comment first
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: c
        image: nginx
      - name: d
        imagee: nginx
";

    #[test]
    fn documents_know_their_lines() {
        let documents = parse("f.yaml", TWO).unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].place.to_string(), "f.yaml: document 1, line 2");
        assert_eq!(documents[1].place.to_string(), "f.yaml: document 2, line 7");
        assert_eq!(documents[1].title(), "ReplicaSet \"web\"");
        for (field, line) in [
            ("spec.replicas", 12),
            ("spec.template.spec.containers[1].imagee", 19),
            ("spec.template.spec.containers[1].nothing", 18),
            ("spec.selector", 11),
            ("status", 7),
        ] {
            assert_eq!(documents[1].place_of(field).line, line, "{field}");
        }
    }

    #[test]
    fn json_and_lists_are_taken() {
        let documents = parse(
            "f.json",
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}},\n {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\n  \"metadata\":{\"name\":\"b\"}}]}",
        )
        .unwrap();
        let names: Vec<&str> = documents.iter().map(|d| d.text("/metadata/name")).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(documents[1].place_of("metadata.name").line, 4);
    }

    #[test]
    fn objects_of_json_may_follow_each_other() {
        let object =
            |name: &str| format!("{{\"apiVersion\":\"v1\",\"kind\":\"A\",\n\"metadata\":{{\"name\":{name}}}}}");
        let text = format!(
            "# these\n---\n{}{}\n{}\n---\n{}\n",
            object("\"a\""),
            object("\"b\""),
            object("\"c\""),
            object("\"d\"")
        );
        let documents = parse("f", &text).unwrap();
        let names: Vec<&str> = documents.iter().map(|it| it.text("/metadata/name")).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        let lines: Vec<usize> = documents.iter().map(|it| it.place_of("metadata.name").line).collect();
        assert_eq!(lines, [4, 5, 7, 10]);
        let error = parse("f", &format!("{}\n{}\n", object("\"a\""), object("7"))).unwrap_err().to_string();
        assert!(error.starts_with("f: document 2, line 4: A: metadata.name: found nothing"), "{error}");
    }

    #[test]
    fn the_items_of_a_typed_list_get_its_type() {
        let text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n";
        let documents = parse("f", text).unwrap();
        assert_eq!((documents[0].text("/kind"), documents[0].text("/apiVersion")), ("Pod", "v1"));
    }

    #[test]
    fn errors_name_file_document_line_and_field() {
        for (text, expected) in [
            ("kind: A\nmetadata: {name: a}\n", "f: document 1, line 1: apiVersion: found nothing"),
            ("---\n\n---\napiVersion: v1\nkind: 7\nmetadata: {name: a}\n", "f: document 2, line 5: kind: found 7"),
            ("apiVersion: v1\nkind: A\nmetadata: {}\n", "f: document 1, line 3: A: metadata.name: found nothing"),
            ("- 1\n- 2\n", "f: document 1, line 1: found [1,2], expected an object"),
            ("apiVersion: v1\nkind: [unclosed\nmetadata: {name: a}\n", "f: document 1, line "),
        ] {
            let error = parse("f", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error:?} should start with {expected:?}");
        }
    }

    #[test]
    fn empty_documents_are_passed_over() {
        assert_eq!(parse("f", "---\n# nothing\n---\n").unwrap().len(), 0);
        assert_eq!(parse("f", "").unwrap().len(), 0);
    }
}
