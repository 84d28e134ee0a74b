//! Request bodies to objects, with the reference's own idea of what a body may be.
//!
//! A body is read three times: once for its syntax (`scan`), once for its `apiVersion` and
//! `kind`, and once by the schema. The last reading keeps only known fields, in the form in which Go
//! would write them again: empty optional fields go, required ones appear, quantities and times take
//! their canonical form. Defaults are not its business. Its errors and their order are those of
//! `sigs.k8s.io/json`: the first type error counts, unless something later cannot be parsed at all.
//! (Contract: API-05, API-06.)

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use muster_tree::{Map, Number, Text, Value};

use super::scan::{self, Cursor};
use super::table::{Shape, Table};
use super::{Object, unstructured, yaml};
use crate::field::go_quote;

mod reader;

use reader::Decoder;

/// What to do about fields that the schema does not know, and about fields given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    /// Leave them out and say nothing.
    Ignore,
    /// Leave them out and warn; what a request that does not say gets.
    #[default]
    Warn,
    /// Refuse the body.
    Strict,
}

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.1, which becomes JSON first.
    Yaml,
}

/// Why a body is not an object. The answer to it is 400 with reason `BadRequest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The message, as the reference words it.
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

/// Decodes a request's body as an object of one kind. The body may leave out `apiVersion` and `kind`.
/// Gives the object and the warnings.
///
/// # Errors
///
/// The whole message of the 400 answer: `ReplicaSet in version "v1" cannot be handled as a ReplicaSet: ...`.
pub fn decode(
    group: &str,
    version: &str,
    kind: &str,
    body: &[u8],
    format: Format,
    validation: Validation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let json = match format {
        Format::Json => Ok(Cow::Borrowed(body)),
        Format::Yaml => yaml::yaml_to_json(body).map(Cow::Owned),
    };
    let target = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) };
    let result = json.map_err(Failure::bare).and_then(|json| decode_as(&target, &json, validation, false));
    let (object, mut strict) = result.map_err(|failure| failure.explain(kind, body))?;
    if validation != Validation::Ignore && format == Format::Yaml {
        let duplicates = yaml::duplicates(body);
        if validation == Validation::Warn {
            strict.splice(0..0, duplicates);
        } else if !duplicates.is_empty() {
            strict.insert(0, format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  ")));
        }
    }
    if validation == Validation::Strict && !strict.is_empty() {
        let failure = Failure { message: strict_message(&strict), gvk: Some((kind.to_owned(), version.to_owned())) };
        return Err(failure.explain(kind, body));
    }
    Ok((object, strict))
}

/// Decodes what a JSON patch or a merge patch made of an object. Gives the object and the warnings. What it has in common with
/// `known`, a decoded object of that kind, is as it is there.
///
/// # Errors
///
/// The bare error, such as `json: cannot unmarshal ...` or `strict decoding error: ...`; the reference
/// puts it into an `Invalid` answer for the field `patch`.
pub fn round_trip(
    group: &str,
    version: &str,
    kind: &str,
    patched: &Value,
    known: Option<&Object>,
    validation: Validation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let target = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) };
    if patched["kind"] == kind
        && patched["apiVersion"] == target.api_version()
        && let Some(id) = Table::get().kind(group, version, kind)
        && let Some(object) = unstructured::exactly(id, patched, known)
    {
        return Ok((object, Vec::new()));
    }
    let json = patched.to_string();
    let (object, strict) =
        decode_as(&target, json.as_bytes(), validation, true).map_err(|f| DecodeError { message: f.message })?;
    if validation == Validation::Strict && !strict.is_empty() {
        return Err(DecodeError { message: strict_message(&strict) });
    }
    Ok((object, strict))
}

/// Decodes a tree as a type that is no kind, such as metadata. Gives the object, and what a strict reader has against it.
///
/// # Errors
///
/// The first type error, in Go's words.
pub fn decode_type(name: &str, tree: &Value) -> Result<(Object, Vec<String>), String> {
    let json = tree.to_string();
    let id = Table::get().named(name).ok_or_else(|| format!("no type {name}"))?;
    if let Some(word) = (!tree.is_object() && !tree.is_null()).then(|| word(json.as_bytes()[0])) {
        let go = name.rsplit('.').next().unwrap_or(name);
        return Err(format!("json: cannot unmarshal {word} into Go value of type v1.{go}"));
    }
    let mut decoder = Decoder::new(json.as_bytes(), true);
    let object = decoder.root(id)?;
    Ok((object, decoder.strict_errors))
}

/// Reads JSON that has no type of its own, such as a patch: whole numbers stay whole where 64 bits hold
/// them, of a key that is given twice the last counts.
///
/// # Errors
///
/// What Go's decoder says of it.
pub fn read_json(json: &[u8]) -> Result<Value, String> {
    read_noting(json).map(|(value, _)| value)
}

/// As [`read_json`]; answers also `duplicate field "spec.replicas"` for each key that is given twice, in the order found.
///
/// # Errors
///
/// What Go's decoder says of it.
pub fn read_noting(json: &[u8]) -> Result<(Value, Vec<String>), String> {
    scan::check(json)?;
    read_checked(json)
}

/// As [`read_noting`], of what has been checked by [`interpret`].
///
/// # Errors
///
/// The number that is none, or that it is too deep.
pub fn read_checked(json: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut reader = Untyped::new(json);
    let value = reader.value(0)?;
    if !reader.repeated {
        return Ok((value, Vec::new()));
    }
    // Where is asked for seldom.
    let mut reader = Untyped { noting: true, ..Untyped::new(json) };
    Ok((reader.value(0)?, reader.doubled))
}

/// Reads JSON as a value of a type, for itself: without regard to unknown fields.
///
/// # Errors
///
/// What Go's decoder says of it.
pub(super) fn read_as(shape: &Shape, json: &[u8]) -> Result<Value, String> {
    Decoder::new(json, false).alone(shape)
}

/// A tree of JSON is walked by recursion elsewhere.
pub(crate) const DEEPEST: usize = 500;

/// Reads a tree.
struct Untyped<'a> {
    cursor: Cursor<'a>,
    /// Whether a key was given twice.
    repeated: bool,
    /// Whether it is noted where that was.
    noting: bool,
    /// Where it is, if that is noted.
    path: String,
    doubled: Vec<String>,
}

impl<'a> Untyped<'a> {
    fn new(json: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(json), repeated: false, noting: false, path: String::new(), doubled: Vec::new() }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("exceeded max depth".to_owned());
        }
        let length = self.path.len();
        Ok(match self.cursor.peek() {
            b'{' => {
                let mut out: Vec<(Text, Value)> = Vec::new();
                let mut seen = BTreeSet::new();
                let mut more = self.cursor.enter(b'}');
                while more {
                    let key = Text::from(self.cursor.key());
                    let known = self.noting && !seen.insert(key.clone());
                    if self.noting {
                        if length > 0 {
                            self.path.push('.');
                        }
                        self.path.push_str(&key);
                    }
                    let value = self.value(depth + 1)?;
                    if known {
                        self.doubled.push(format!("duplicate field \"{}\"", self.path));
                    }
                    out.push((key, value));
                    self.path.truncate(length);
                    more = self.cursor.another();
                }
                let members = out.len();
                let out: Map = out.into_iter().collect();
                self.repeated |= out.len() < members;
                Value::Object(out)
            }
            b'[' => {
                let mut out = Vec::new();
                let mut more = self.cursor.enter(b']');
                while more {
                    if self.noting {
                        // Writing to a text cannot fail.
                        let _ = write!(self.path, "[{}]", out.len());
                    }
                    out.push(self.value(depth + 1)?);
                    self.path.truncate(length);
                    more = self.cursor.another();
                }
                Value::Array(out.into())
            }
            b'"' => Value::from(self.cursor.string()),
            b't' | b'f' => Value::Bool(self.cursor.raw() == b"true"),
            b'n' => {
                self.cursor.raw();
                Value::Null
            }
            _ => number(self.cursor.raw())?,
        })
    }
}

/// A whole number where 64 bits hold it and it is written as one, else a float.
fn number(raw: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let whole = if text.contains('.') { None } else { text.parse::<i64>().ok() };
    match (whole, text.parse::<f64>().ok().filter(|f| f.is_finite())) {
        (Some(n), _) => Ok(Value::from(n)),
        (None, Some(f)) => Ok(Number::from_f64(f).map_or(Value::Null, Value::Number)),
        (None, None) => Err(format!("json: cannot unmarshal number {text} into Go value of type float64")),
    }
}

/// `strict decoding error: ` and the errors.
#[must_use]
pub fn strict_message(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

/// Group, version and kind.
#[derive(Debug, Clone)]
struct Gvk<'a> {
    group: Cow<'a, str>,
    version: Cow<'a, str>,
    kind: Cow<'a, str>,
}

/// The versions that are not served here any more, with the kinds that the reference still reads in them.
const FORMER: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io/v1alpha1", ADMISSION_POLICIES),
    ("admissionregistration.k8s.io/v1beta1", ADMISSION),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io/v1beta1", &["APIService"]),
    ("apps/v1beta1", &["ControllerRevision", "Deployment", "Scale", "StatefulSet"]),
    ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "Scale", "StatefulSet"]),
    ("authentication.k8s.io/v1alpha1", &["SelfSubjectReview"]),
    ("authentication.k8s.io/v1beta1", &["SelfSubjectReview", "TokenReview"]),
    (
        "authorization.k8s.io/v1beta1",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"],
    ),
    ("batch/v1beta1", &["CronJob"]),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    ("events.k8s.io/v1beta1", &["Event"]),
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"]),
    ("flowcontrol.apiserver.k8s.io/v1beta1", FLOWS),
    ("flowcontrol.apiserver.k8s.io/v1beta2", FLOWS),
    ("flowcontrol.apiserver.k8s.io/v1beta3", FLOWS),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    ("node.k8s.io/v1alpha1", &["RuntimeClass"]),
    ("node.k8s.io/v1beta1", &["RuntimeClass"]),
    ("policy/v1beta1", &["Eviction", "PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io/v1alpha1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("rbac.authorization.k8s.io/v1beta1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    ("storage.k8s.io/v1alpha1", &["CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"]),
    ("storage.k8s.io/v1beta1", STORAGE),
];
const ADMISSION: &[&str] = &[
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];
const ADMISSION_POLICIES: &[&str] = &[
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
const FLOWS: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const STORAGE: &[&str] =
    &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"];

impl Gvk<'_> {
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether this is a version of the target that is no longer served, but still understood.
    fn is_former_of(&self, target: &Gvk<'_>) -> bool {
        let version = self.api_version();
        let kinds = FORMER.iter().find(|(former, _)| *former == version).map_or(&[][..], |(_, kinds)| kinds);
        let moved = self.group == "extensions" || self.kind == "Scale";
        self.kind == target.kind
            && kinds.iter().any(|kind| *kind == self.kind)
            && (moved || self.internal_package() == target.internal_package())
    }

    /// The package of the type that the reference converts every version of this kind to.
    fn internal_package(&self) -> &str {
        match (self.group.as_ref(), self.kind.as_ref()) {
            ("", _) | ("events.k8s.io", "Event" | "EventList") => "core",
            (group, _) => group.split('.').next().unwrap_or(group),
        }
    }
}

/// An error on the way, and the kind that was found by then.
struct Failure {
    message: String,
    gvk: Option<(String, String)>,
}

impl Failure {
    fn bare(message: String) -> Self {
        Self { message, gvk: None }
    }

    /// The message of the answer.
    fn explain(self, target: &str, body: &[u8]) -> DecodeError {
        let Self { message, gvk } = self;
        let message = match gvk {
            Some((kind, _)) if kind.is_empty() => {
                format!("the object provided is unrecognized (must be of type {target}): {message} ({})", summary(body))
            }
            None => {
                format!("the object provided is unrecognized (must be of type {target}): {message} ({})", summary(body))
            }
            Some((_, version)) if version == MISMATCH => message,
            Some((kind, version)) => {
                format!("{kind} in version {} cannot be handled as a {target}: {message}", go_quote(&version))
            }
        };
        DecodeError { message }
    }
}

/// Stands for the version where the message is already whole.
const MISMATCH: &str = "\0";

/// The beginning of a body, for a message: as it is where it looks like JSON, else in hexadecimal.
#[must_use]
pub fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let (part, more) = if body.len() > MOST { (&body[..MOST], " ...") } else { (body, "") };
    let text = if body[0] == b'{' {
        String::from_utf8_lossy(part).into_owned()
    } else {
        part.iter().map(|b| format!("{b:02x}")).collect()
    };
    text + more
}

/// Where the part of the reference that serves a group says what kinds it knows.
fn scheme(group: &str) -> &'static str {
    match group {
        "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}

/// What a patch has made may say a former version.
fn decode_as(
    target: &Gvk<'_>,
    json: &[u8],
    validation: Validation,
    is_patched: bool,
) -> Result<(Object, Vec<String>), Failure> {
    let (api_version, kind) =
        interpret(json).map_err(|e| Failure::bare(format!("couldn't get version/kind; json parse error: {e}")))?;
    let actual = complete(&api_version, kind, target)?;
    let found = || Some((actual.kind.to_string(), actual.version.to_string()));
    if actual.version.is_empty() {
        let body = String::from_utf8_lossy(json);
        return Err(Failure { message: format!("Object 'apiVersion' is missing in '{body}'"), gvk: found() });
    }
    let table = Table::get();
    let former = actual.is_former_of(target);
    let same = (actual.group == target.group && actual.version == target.version && actual.kind == target.kind)
        // Evictions are taken in their older version as well.
        || (former && (is_patched || actual.kind == "Eviction"));
    let known = if former { target } else { &actual };
    let Some(id) = table.kind(&known.group, &known.version, &known.kind) else {
        let message = if table.registered(&actual.group, &actual.version, &actual.kind) {
            unknown_conversion(&actual, target)
        } else {
            format!(
                "no kind {} is registered for version {} in scheme \"{}\"",
                go_quote(&actual.kind),
                go_quote(&actual.api_version()),
                scheme(&target.group)
            )
        };
        return Err(Failure { message, gvk: found() });
    };
    let mut decoder = Decoder::new(json, validation != Validation::Ignore);
    let mut object = decoder.root(id).map_err(|message| Failure { message, gvk: found() })?;
    if !same && actual.kind != "DeleteOptions" {
        if former || (actual.kind == target.kind && actual.internal_package() == target.internal_package()) {
            let message = format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                actual.api_version(),
                target.api_version()
            );
            return Err(Failure { message, gvk: Some((actual.kind.to_string(), MISMATCH.to_owned())) });
        }
        return Err(Failure { message: unknown_conversion(&actual, target), gvk: found() });
    }
    object.insert("apiVersion", Value::String(target.api_version().into()));
    object.insert("kind", Value::String(target.kind.to_string().into()));
    Ok((object, decoder.strict_errors))
}

fn unknown_conversion(actual: &Gvk<'_>, target: &Gvk<'_>) -> String {
    format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        actual.version,
        actual.kind,
        target.internal_package(),
        target.kind
    )
}

/// The kind that the body says it is, completed by the one that is expected.
fn complete<'a>(api_version: &'a str, kind: Cow<'a, str>, target: &Gvk<'a>) -> Result<Gvk<'a>, Failure> {
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some(("", "")) => ("", ""),
        Some((group, version)) if !version.contains('/') => (group, version),
        Some(_) => return Err(Failure::bare(format!("unexpected GroupVersion string: {api_version}"))),
    };
    let kind = if kind.is_empty() { target.kind.clone() } else { kind };
    let mut out = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind };
    if version.is_empty() && group.is_empty() {
        out.group = target.group.clone();
    }
    if version.is_empty() && out.group == target.group {
        out.version = target.version.clone();
    }
    Ok(out)
}

/// What is said of a body that is refused: with the kind and the version that it says it is of, where it got that far.
#[must_use]
pub fn refusal(message: String, found: Option<(String, String)>, target: &str, body: &[u8]) -> String {
    Failure { message, gvk: found }.explain(target, body).message
}

/// Checks a body's syntax, and finds `apiVersion` and `kind`, whose names may be in any case here.
///
/// # Errors
///
/// What Go's decoder says of it.
pub fn interpret(json: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), String> {
    const ANONYMOUS: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let mut found = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut candidates: Vec<(usize, usize)> = Vec::new();
    scan::check_noting(json, |key, value| {
        // A first letter is enough to pass most keys by; an escape may stand for any.
        if matches!(json.get(key + 1), Some(b'a' | b'A' | b'k' | b'K' | b'\\' | 0x80..))
            || json[key..value].contains(&b'\\')
        {
            candidates.push((key, value));
        }
    })?;
    match Cursor::new(json).peek() {
        b'{' => {}
        b'n' => return Ok(found),
        other => return Err(format!("json: cannot unmarshal {} into Go value of type {ANONYMOUS}", word(other))),
    }
    let mut error = None;
    for (key, value) in candidates {
        let key = Cursor::at(json, key).string();
        let (name, slot) = match key.as_ref() {
            k if k.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut found.0),
            k if k.eq_ignore_ascii_case("kind") => ("kind", &mut found.1),
            _ => continue,
        };
        let mut cursor = Cursor::at(json, value);
        match cursor.peek() {
            b'"' => *slot = cursor.string(),
            b'n' => {}
            other => {
                error.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {} into Go struct field .{name} of type string", word(other))
                });
            }
        }
    }
    error.map_or(Ok(found), Err)
}

/// What Go calls a value that begins with this byte.
fn word(first: u8) -> &'static str {
    match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        _ => "number",
    }
}

#[cfg(test)]
mod tests;
