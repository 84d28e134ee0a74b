//! Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tree::Value;

use super::{AGE_COLUMN, Column, NAME_COLUMN, NameRule, Object, Resource, Row};
use crate::certificates::pair;
use crate::model::{Fields as _, metadata};
use crate::validation::{Errors, data, meta};

/// Configuration that is nobody else's business.
pub(super) fn kind() -> Row {
    Row {
        default,
        validate,
        warnings: |secret, _| warnings(secret),
        columns: &COLUMNS,
        ..Row::new(Resource::namespaced("", "v1", "Secret", "secrets").labels(&["type"]))
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    )
    .at("/type"),
    Column::text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    )
    .count("/data"),
    AGE_COLUMN,
];

fn default(object: &mut Object) {
    object.set_if_empty("type", "Opaque");
    // No bytes at all are stored as none.
    if object.part("data").values().any(Value::is_null)
        && let Some(Value::Object(data)) = object.get_mut("data")
    {
        data.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
    }
    // What was written as text is stored like the rest.
    if let Some(Value::Object(texts)) = object.remove("stringData")
        && !texts.is_empty()
    {
        let data = object.object_or_new("data");
        for (key, text) in texts {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    if let Some(old) = old {
        data::validate_secret_change(object, old, errors);
        meta::validate_core(metadata(object), true, NameRule::Subdomain, errors);
    }
    data::validate_secret(object, errors);
}

/// A certificate that has not this key is stored, and warned of.
fn warnings(secret: &Object) -> Vec<String> {
    if secret.text("type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let text = |key: &str| {
        let bytes = STANDARD.decode(secret.part("data").text(key)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    pair::complain(&text("tls.crt"), &text("tls.key")).into_iter().collect()
}
