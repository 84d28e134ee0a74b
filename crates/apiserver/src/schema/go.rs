//! How Go prints things, where its printing reaches a client.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use muster_tree::{Map, Text, Value};

use super::Object;
use super::table::{Kind, Table, Type, TypeId};
use muster_tree::float;

/// A JSON tree as Go's `%v` prints it: `map[a:1 b:[x y] c:<nil>]`.
#[must_use]
pub fn sprint(value: &Value) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) if n.is_f64() => out.push_str(&float::shown(n.as_f64().unwrap_or(0.0))),
        Value::Number(n) => out.push_str(&n.to_string()),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push_str("map[");
            let mut keys: Vec<&Text> = entries.keys().collect();
            keys.sort();
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(&entries[key.as_str()], out);
            }
            out.push(']');
        }
    }
}

/// A type of the reference's internal version, from its `v1` JSON, as `json.MarshalIndent(x, "", " ")`
/// prints it: Go's field names and order, nothing left out. Only the types of `internal.txt`; what is not known
/// prints as `null`.
///
/// The reference shows the difference between two of these when a change of a pod's spec is
/// forbidden (API-17).
#[must_use]
pub fn internal_json(kind: &str, value: &Value) -> String {
    print_internal(kind, value, false).unwrap_or_else(|| "null".to_owned())
}

/// As [`internal_json`], on one line, as `json.Marshal` prints it. `None` for a type that is not known.
#[must_use]
pub fn internal_compact(kind: &str, value: &Value) -> Option<String> {
    print_internal(kind, value, true)
}

/// An object of a type of the API, by the type's name in OpenAPI, on one line: its fields in the order in which Go
/// declares them.
#[must_use]
pub fn in_order(name: &str, object: &Object) -> String {
    let kind = Table::get().named(name).map_or(Kind::Raw, Kind::Struct);
    let value = Value::Object(object.clone());
    let mut printer = Printer { out: String::new(), depth: 0, compact: true, root: &value };
    printer.json(&kind, &value);
    printer.out
}

fn print_internal(kind: &str, value: &Value, compact: bool) -> Option<String> {
    const VERSIONS: [&str; 9] = [
        "core.v1",
        "apps.v1",
        "batch.v1",
        "policy.v1",
        "storage.v1",
        "autoscaling.v2",
        "flowcontrol.v1",
        "networking.v1",
        "resource.v1",
    ];
    structs().get(kind)?;
    // The sources of a persistent volume are a struct of their own only there.
    let named = if kind == "PersistentVolumeSource" { "PersistentVolumeSpec" } else { kind };
    let named = |version| Table::get().named(&format!("io.k8s.api.{version}.{named}"));
    let id = VERSIONS.into_iter().find_map(named)?;
    let root = if kind == "PodTemplateSpec" { value.get("spec") } else { None };
    let mut printer = Printer { out: String::new(), depth: 0, compact, root: root.unwrap_or(value) };
    printer.structure(kind, id, value);
    Some(printer.out)
}

/// The fields of the internal structs, as `Name:type`.
fn structs() -> &'static BTreeMap<&'static str, Vec<&'static str>> {
    static READ: OnceLock<BTreeMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    READ.get_or_init(|| {
        let lines = include_str!("internal.txt").lines().filter(|l| !l.starts_with('#'));
        let mut out = BTreeMap::new();
        for line in lines {
            let mut words = line.split_whitespace();
            if let Some(name) = words.next() {
                out.insert(name, words.collect());
            }
        }
        out
    })
}

struct Printer<'a> {
    out: String,
    depth: usize,
    /// Everything on one line.
    compact: bool,
    /// The pod spec: the security context shows fields that `v1` has there.
    root: &'a Value,
}

impl Printer<'_> {
    fn line(&mut self) {
        if self.compact {
            return;
        }
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push(' ');
        }
    }

    fn key(&mut self, first: &mut bool, name: &str) {
        if !*first {
            self.out.push(',');
        }
        *first = false;
        self.line();
        self.out.push_str(&quote(name));
        self.out.push_str(if self.compact { ":" } else { ": " });
    }

    /// A struct in braces.
    fn structure(&mut self, name: &str, id: TypeId, value: &Value) {
        self.out.push('{');
        self.depth += 1;
        let mut first = true;
        self.fields(name, Table::get().ty(id), value, &mut first);
        self.depth -= 1;
        if !first {
            self.line();
        }
        self.out.push('}');
    }

    fn fields(&mut self, name: &str, ty: &Type, value: &Value, first: &mut bool) {
        for entry in structs().get(name).into_iter().flatten() {
            if let Some(embedded) = entry.strip_prefix('+') {
                if embedded == "M" {
                    self.tagged(ty, value.get("metadata"), first);
                } else {
                    self.fields(embedded, ty, value, first);
                }
                continue;
            }
            let Some((go, kind)) = entry.split_once(':') else { continue };
            self.key(first, go);
            let field = ty.fields.iter().find(|f| f.go == go);
            let inner = match field.map(|f| &f.shape.kind) {
                Some(Kind::Struct(id)) => Some(*id),
                Some(Kind::List(inner)) => match inner.kind {
                    Kind::Struct(id) => Some(id),
                    _ => None,
                },
                _ => None,
            };
            match field {
                Some(field) => {
                    let mut found = value.get(field.json);
                    if field.json == "serviceAccountName" && found.is_none() {
                        found = value.get("serviceAccount");
                    }
                    self.value(kind, inner, found);
                }
                // What the internal version keeps in the security context, and `v1` beside it.
                None => {
                    let json = match go {
                        "HostPID" => "hostPID".to_owned(),
                        "HostIPC" => "hostIPC".to_owned(),
                        other => other[..1].to_ascii_lowercase() + &other[1..],
                    };
                    let found = self.root.get(json.as_str());
                    self.value(kind, None, found);
                }
            }
        }
    }

    /// The fields of embedded metadata, which has JSON names and leaves out what is empty.
    fn tagged(&mut self, ty: &Type, metadata: Option<&Value>, first: &mut bool) {
        let Some(Kind::Struct(id)) = ty.field("metadata").map(|f| &f.shape.kind) else { return };
        for field in &Table::get().ty(*id).fields {
            if let Some(value) = metadata.and_then(|m| m.get(field.json)) {
                self.key(first, field.json);
                self.json(&field.shape.kind, value);
            }
        }
    }

    fn value(&mut self, kind: &str, id: Option<TypeId>, value: Option<&Value>) {
        let value = value.filter(|v| !v.is_null());
        let (letter, rest) = kind.split_at(1);
        match (letter, value) {
            ("*" | "[" | "{", None) => self.out.push_str("null"),
            ("*", Some(_)) => self.value(rest, id, value),
            ("@", found) => match id {
                Some(id) => self.structure(rest, id, found.unwrap_or(&Value::Object(Map::new()))),
                None => self.out.push_str("null"),
            },
            ("s", None) => self.out.push_str("\"\""),
            ("q", None) => self.out.push_str("\"0\""),
            ("i" | "o", None) => self.out.push('0'),
            ("b", None) => self.out.push_str("false"),
            (_, None) => self.out.push_str("null"),
            ("[", Some(Value::Array(items))) => {
                self.items(items.iter(), |printer, item| printer.value(rest, id, Some(item)));
            }
            ("{", Some(Value::Object(entries))) => self.entries(entries, |printer, v| printer.value(rest, id, Some(v))),
            ("J", Some(value)) => {
                let kind = id.map_or(Kind::Raw, Kind::Struct);
                self.json(&kind, value);
            }
            (_, Some(Value::String(s))) => self.out.push_str(&quote(s)),
            (_, Some(other)) => self.out.push_str(&other.to_string()),
        }
    }

    /// A value with JSON names of its own, fields in Go's order.
    fn json(&mut self, kind: &Kind, value: &Value) {
        match (kind, value) {
            (Kind::Struct(id), Value::Object(entries)) => {
                self.out.push('{');
                self.depth += 1;
                let mut first = true;
                for field in &Table::get().ty(*id).fields {
                    if let Some(value) = entries.get(field.json) {
                        self.key(&mut first, field.json);
                        self.json(&field.shape.kind, value);
                    }
                }
                self.depth -= 1;
                if !first {
                    self.line();
                }
                self.out.push('}');
            }
            (Kind::List(inner), Value::Array(items)) => {
                self.items(items.iter(), |printer, item| printer.json(&inner.kind, item));
            }
            (_, Value::Object(entries)) => self.entries(entries, |printer, value| printer.json(&Kind::Raw, value)),
            (_, Value::Array(items)) => self.items(items.iter(), |printer, item| printer.json(&Kind::Raw, item)),
            (_, Value::String(s)) => self.out.push_str(&quote(s)),
            (_, other) => self.out.push_str(&other.to_string()),
        }
    }

    fn items<'v>(&mut self, items: impl Iterator<Item = &'v Value>, mut print: impl FnMut(&mut Self, &Value)) {
        self.out.push('[');
        self.depth += 1;
        let mut first = true;
        for item in items {
            if !first {
                self.out.push(',');
            }
            first = false;
            self.line();
            print(self, item);
        }
        self.depth -= 1;
        if !first {
            self.line();
        }
        self.out.push(']');
    }

    fn entries(&mut self, entries: &Object, mut print: impl FnMut(&mut Self, &Value)) {
        self.out.push('{');
        self.depth += 1;
        let mut first = true;
        let sorted: BTreeMap<&Text, &Value> = entries.iter().collect();
        for (name, value) in sorted {
            self.key(&mut first, name);
            print(self, value);
        }
        self.depth -= 1;
        if !first {
            self.line();
        }
        self.out.push('}');
    }
}

/// A string as Go's `encoding/json` writes it: with `<`, `>` and `&` escaped.
#[must_use]
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn a_pod_spec_prints_as_the_internal_type() {
        let spec = json!({
            "containers": [{"name": "c", "image": "a<b", "resources": {"requests": {"cpu": "1"}}, "imagePullPolicy": "Always"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "hostNetwork": true, "restartPolicy": "Always", "securityContext": {},
        });
        let text = internal_json("PodSpec", &spec);
        for expected in [
            "{\n \"Volumes\": [\n  {\n   \"Name\": \"v\",\n   \"HostPath\": null,\n   \"EmptyDir\": {\n    \"Medium\": \"\",\n    \"SizeLimit\": null\n   },\n",
            " \"InitContainers\": null,\n \"Containers\": [\n  {\n   \"Name\": \"c\",\n   \"Image\": \"a\\u003cb\",\n   \"Command\": null,\n",
            "   \"Resources\": {\n    \"Limits\": null,\n    \"Requests\": {\n     \"cpu\": \"1\"\n    },\n    \"Claims\": null\n   },\n",
            "   \"TTY\": false\n  }\n ],\n \"EphemeralContainers\": null,\n \"RestartPolicy\": \"Always\",\n",
            " \"SecurityContext\": {\n  \"HostNetwork\": true,\n  \"HostPID\": false,\n",
            " \"SchedulingGroup\": null\n}",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        let toleration = json!({"key": "k", "operator": "Exists"});
        assert_eq!(
            internal_compact("Toleration", &toleration).as_deref(),
            Some(r#"{"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#)
        );
        assert_eq!(internal_compact("Nothing", &toleration), None);
        // What a real server shows around the restart policy of a pod of one plain container.
        let plain = json!({"containers": [{"name": "c"}], "restartPolicy": "Never", "securityContext": {}});
        let lines = internal_json("PodSpec", &plain);
        assert_eq!(lines.lines().nth(37), Some(" \"RestartPolicy\": \"Never\","));
    }

    /// Contract: API-12
    #[test]
    fn values_print_as_in_go() {
        let value = json!({"b": [1, "x", null, true], "a": {"f": 1.5, "g": 1e21, "h": 0.00001, "i": 2.0, "j": 1e6, "k": 100_000.0}});
        assert_eq!(sprint(&value), "map[a:map[f:1.5 g:1e+21 h:1e-05 i:2 j:1e+06 k:100000] b:[1 x <nil> true]]");
    }
}
