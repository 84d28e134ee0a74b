//! The options of a request: parsed from its query (or, for deletes, its body) and validated with the real
//! server's words.

use std::sync::Arc;

use muster_tree::{Value, json};

use crate::access::User;
use crate::field::{FieldError, Shown};
pub use crate::model::FieldValidation;
use crate::model::{Fields as _, Object, Propagation};
use crate::status::{ApiError, GroupResource};

/// The parameters of a URL's query, decoded, in the order given.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part of a URL after `?`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        // A pair that cannot be decoded is as if it were not there, nor is one with a semicolon, as in Go.
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A boolean, as Go's conversion of parameters reads one: anything but `false` and `0` is true.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|v| !(v.eq_ignore_ascii_case("false") || v == "0"))
    }

    /// An integer.
    ///
    /// # Errors
    /// 400 when it is none.
    pub fn int(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        if text.is_empty() {
            return Err(ApiError::bad_request("strconv.ParseInt: parsing \"\": invalid syntax"));
        }
        let number = text.parse().map_err(|e: std::num::ParseIntError| {
            let why = match e.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", crate::field::go_quote(text)))
        });
        number.map(Some)
    }
}

fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    for (at, _) in escapes {
        if !bytes.get(at + 1..at + 3)?.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
    }
    let spaced = text.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

/// What comes with a create, an update or a patch.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// What to do about unknown fields.
    pub field_validation: FieldValidation,
    /// Who writes: the parameter, or the first part of the User-Agent.
    pub manager: String,
    /// The manager as the parameter gave it; empty where it did not.
    pub field_manager: String,
    /// For an apply: take over fields of other managers.
    pub force: bool,
    /// What was asked for, in the words of authorization: `create`, `update` or `patch`; empty for what the server does on its own.
    pub verb: &'static str,
    /// Who writes. By default somebody who has no rights: what the server does on its own is not asked for any.
    pub user: Arc<User>,
}

impl WriteOptions {
    /// Reads and checks the options. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `apply` says that the
    /// patch is an apply.
    ///
    /// # Errors
    /// 422 with what is wrong with which option.
    pub fn from_query(query: &Query, kind: &str, apply: bool, user_agent: &str) -> Result<Self, ApiError> {
        let field_manager = query.get("fieldManager").unwrap_or_default();
        let mut errors = Vec::new();
        if kind == "PatchOptions" {
            if apply && field_manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            if !apply && query.get("force").is_some() {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        validate_manager(field_manager, &mut errors);
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        validate_dry_run(&dry_run, &mut errors);
        let validation = query.get("fieldValidation").unwrap_or_default();
        let field_validation = match validation {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &known));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid_options(kind, &errors));
        }
        let manager =
            if field_manager.is_empty() { manager_of_user_agent(user_agent) } else { field_manager.to_owned() };
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            field_validation,
            manager,
            field_manager: field_manager.to_owned(),
            force: query.flag("force").unwrap_or(false),
            verb: match kind {
                "PatchOptions" => "patch",
                "UpdateOptions" => "update",
                _ => "create",
            },
            user: Arc::default(),
        })
    }
}

/// A field manager may be this many bytes long.
const LONGEST_MANAGER: usize = 128;

fn validate_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > LONGEST_MANAGER {
        errors.push(FieldError::too_long("fieldManager", LONGEST_MANAGER));
    }
    for (at, c) in manager.char_indices() {
        if !printable(c) {
            let shown =
                if c.is_control() { format!("U+{:04X}", c as u32) } else { format!("U+{:04X} '{c}'", c as u32) };
            errors.push(FieldError::invalid(
                "fieldManager",
                manager,
                format!("invalid character {shown} (at position {at})"),
            ));
        }
    }
}

fn validate_dry_run(values: &[&str], errors: &mut Vec<FieldError>) {
    if values.iter().any(|v| *v != "All") {
        let quoted: Vec<String> = values.iter().map(|v| crate::field::go_quote(v)).collect();
        let shown = Shown::Bare(format!("[{}]", quoted.join(",")));
        errors.push(FieldError::not_supported("dryRun", shown, &["All"]));
    }
}

/// As Go's `unicode.IsPrint`: a space is the only blank that prints.
fn printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

/// What names the writer when the request does not: the User-Agent up to its first slash.
#[must_use]
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let mut out = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| printable(*c)) {
        if out.len() + c.len_utf8() > LONGEST_MANAGER {
            break;
        }
        out.push(c);
    }
    if out.is_empty() { "unknown".to_owned() } else { out }
}

/// What comes with a delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Do everything but delete.
    pub dry_run: bool,
    /// The grace period asked for, in seconds.
    pub grace: Option<i64>,
    /// What is to become of dependents.
    pub propagation: Option<Propagation>,
    /// The old form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// Only this very object.
    pub uid: Option<String>,
    /// Only this version of it.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options from a request's query.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for what is wrong.
    pub fn from_query(query: &Query) -> Result<Self, ApiError> {
        let propagation = query.get("propagationPolicy");
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        // Those of a collection are of each of its objects, although the version is that of its list too.
        let precondition = |key| query.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
        let options = Self {
            dry_run: !dry_run.is_empty(),
            grace: query.int("gracePeriodSeconds")?,
            propagation: None,
            orphan_dependents: query.flag("orphanDependents"),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        };
        options.checked(propagation, &dry_run)
    }

    /// Reads the options from a decoded `DeleteOptions`.
    ///
    /// # Errors
    /// 422 for what is wrong.
    pub fn from_body(body: &Object) -> Result<Self, ApiError> {
        let dry_run: Vec<&str> = body.strings("dryRun").collect();
        let preconditions = body.object("preconditions");
        let precondition = |key: &str| preconditions.and_then(|p| p.maybe_text(key)).map(str::to_owned);
        let options = Self {
            dry_run: !dry_run.is_empty(),
            grace: body.maybe_int("gracePeriodSeconds"),
            propagation: None,
            orphan_dependents: body.maybe_flag("orphanDependents"),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        };
        options.checked(body.maybe_text("propagationPolicy"), &dry_run)
    }

    /// The options as JSON, without their kind.
    #[must_use]
    pub fn shown(&self) -> Object {
        let mut out = Object::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(field.to_owned(), value);
            }
        };
        put("gracePeriodSeconds", self.grace.map(Value::from));
        let preconditions = [("uid", &self.uid), ("resourceVersion", &self.resource_version)];
        let preconditions: Object = preconditions
            .into_iter()
            .filter_map(|(field, value)| Some((field.to_owned(), Value::from(value.clone()?))))
            .collect();
        put("preconditions", (!preconditions.is_empty()).then_some(Value::Object(preconditions)));
        put("orphanDependents", self.orphan_dependents.map(Value::from));
        put("propagationPolicy", self.propagation.map(|policy| Value::from(format!("{policy:?}"))));
        put("dryRun", self.dry_run.then(|| json!(["All"])));
        out
    }

    /// Checks that the object is the one that is meant, and its version the one.
    ///
    /// # Errors
    /// 409.
    pub fn check_preconditions(&self, kind: GroupResource<'_>, metadata: &Object) -> Result<(), ApiError> {
        let parts = [
            ("UID", &self.uid, "uid", "deleted and then recreated"),
            ("ResourceVersion", &self.resource_version, "resourceVersion", "modified"),
        ];
        for (what, wanted, field, fate) in parts {
            let found = metadata.text(field);
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {fate}"
                );
                return Err(ApiError::conflict(kind, metadata.text("name"), &why));
            }
        }
        Ok(())
    }

    fn checked(mut self, propagation: Option<&str>, dry_run: &[&str]) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        if let Some(policy) = propagation {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid("propagationPolicy", policy, why));
            }
            self.propagation = match policy {
                "Foreground" => Some(Propagation::Foreground),
                "Background" => Some(Propagation::Background),
                "Orphan" => Some(Propagation::Orphan),
                other => {
                    let known = ["Foreground", "Background", "Orphan", "nil"];
                    errors.push(FieldError::not_supported("propagationPolicy", other, &known));
                    None
                }
            };
        }
        validate_dry_run(dry_run, &mut errors);
        if errors.is_empty() { Ok(self) } else { Err(ApiError::invalid_options("DeleteOptions", &errors)) }
    }
}

/// How a list's `resourceVersion` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// That very version.
    Exact,
    /// That version or a later one.
    NotOlderThan,
}

/// What comes with a list or a watch.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// The label selector's text.
    pub label_selector: String,
    /// The field selector's text.
    pub field_selector: String,
    /// The shard selector's text; empty where there is none.
    pub shard_selector: String,
    /// The version asked for; may be empty.
    pub resource_version: String,
    /// How that version is meant.
    pub version_match: Option<VersionMatch>,
    /// At most so many items; 0 for all.
    pub limit: usize,
    /// The token that the page before ended with.
    pub continue_token: String,
    /// A watch, not a list.
    pub watch: bool,
    /// Whether bookmarks may be sent.
    pub bookmarks: bool,
    /// Whether a watch begins with the present objects.
    pub send_initial_events: Option<bool>,
    /// When a watch ends, in seconds.
    pub timeout: Option<u64>,
}

impl ListOptions {
    /// Reads and checks the options; `watch` says that the path alone makes it a watch.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for what is wrong.
    pub fn from_query(query: &Query, watch: bool) -> Result<Self, ApiError> {
        let text = |key| query.get(key).unwrap_or_default().to_owned();
        let mut version_match = query.get("resourceVersionMatch").unwrap_or_default();
        let resource_version = text("resourceVersion");
        let asked_to_watch = query.flag("watch").unwrap_or(false);
        let limit = query.int("limit")?.unwrap_or(0);
        let timeout = query.int("timeoutSeconds")?;
        let mut send_initial_events = query.flag("sendInitialEvents");
        let unsaid = matches!(resource_version.as_str(), "" | "0");
        if send_initial_events.is_none() && version_match.is_empty() && asked_to_watch && unsaid {
            send_initial_events = Some(true);
            version_match = "NotOlderThan";
        }
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            shard_selector: text("shardSelector"),
            resource_version,
            version_match: match version_match {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: text("continue"),
            watch: watch || asked_to_watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events,
            // One below 0 is over at once.
            timeout: timeout.filter(|s| *s != 0).map(|s| u64::try_from(s).unwrap_or(0)),
        };
        let errors =
            if asked_to_watch { options.watch_errors(version_match) } else { options.list_errors(version_match) };
        if errors.is_empty() { Ok(options) } else { Err(ApiError::invalid_options("ListOptions", &errors)) }
    }

    fn list_errors(&self, version_match: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let field = "resourceVersionMatch";
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(field, CONTINUED));
            }
            if self.version_match.is_none() {
                errors.push(FieldError::not_supported(field, version_match, &["Exact", "NotOlderThan", ""]));
            }
            if version_match == "Exact" && self.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, version_match: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let field = "resourceVersionMatch";
        if self.send_initial_events.is_some() && version_match != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, why));
        }
        if !version_match.is_empty() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if version_match != "NotOlderThan" {
                errors.push(FieldError::not_supported(field, version_match, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(field, CONTINUED));
            }
        }
        errors
    }

    /// The version asked for, as a number; `None` where it is absent.
    ///
    /// # Errors
    /// 500, as on the real server, when it is no number.
    pub fn version(&self) -> Result<Option<u64>, ApiError> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        let text = &self.resource_version;
        text.parse().map(Some).map_err(|e: std::num::ParseIntError| {
            let why = match e.kind() {
                std::num::IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let quoted = crate::field::go_quote(text);
            ApiError::plain(format!(
                "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
            ))
        })
    }
}

const CONTINUED: &str = "resourceVersionMatch is forbidden when continue is provided";
