//! What a pod template's types say of it: its hash, and whether it equals another.
//!
//! ```text
//!                      ┌─> dump ───────> hash        (Kubernetes' own)
//!   raw JSON ── table ─┤
//!                      └─> canonical ──> equality    (and a hash of our own where there is no dump)
//!   raw JSON ── scan ───── raw ────────> the same JSON with or without the hash label
//! ```
//!
//! Templates travel as the raw JSON in which they came, so nothing of them is lost; here they are read
//! to be compared, never to be written again.

mod canonical;
mod dump;
mod equality;
mod fnv;
mod instant;
mod raw;
mod scan;

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::Value;

pub use equality::{Template, equal_ignoring_hash};
pub use raw::{raw_with_hash_label, raw_without_hash_label};

use crate::table::{Kind, Shape, Table};
use fnv::Fnv32;

/// The label that tells the ReplicaSets of one Deployment apart.
pub const HASH_LABEL: &str = "pod-template-hash";

/// A pod template's hash, as it stands in names and in the label [`HASH_LABEL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hash {
    /// At most ten characters of `bcdfghjklmnpqrstvwxz2456789`.
    pub text: String,
    /// Whether it is the hash that Kubernetes computes for this template.
    ///
    /// It is not where the template has something that the table does not know, something malformed,
    /// or something that Kubernetes hashes by more than its JSON (a time, by the time zone of the
    /// process; field sets, by their white space). The text is then made from the canonical JSON: the
    /// same for equal templates, but another one than Kubernetes would choose.
    pub exact: bool,
}

/// The hash of a pod template as it is, from its raw JSON and the Deployment's `status.collisionCount`.
///
/// It is `ComputeHash` of `pkg/controller/controller_utils.go`: a 32-bit FNV-1a over a textual dump of
/// the typed template and the collision count, its decimal digits written in an alphabet that spells no
/// words. (Contract: DEP-04.)
#[must_use]
pub fn hash(template_json: &str, collision_count: Option<i32>) -> Hash {
    let mut hasher = Fnv32::default();
    let exact = match serde_json::from_str::<Value>(template_json) {
        Ok(template) => {
            let dumped = dump::dump(&template, shape(), &mut hasher).is_ok();
            if !dumped {
                hasher = Fnv32::default();
                hasher.update(canonical::canonical(&template, shape()).text().as_bytes());
            }
            dumped
        }
        Err(_) => {
            hasher.update(template_json.as_bytes());
            false
        }
    };
    if let Some(count) = collision_count {
        // Eight bytes, of which the reference fills the first four.
        hasher.update(&count.to_le_bytes());
        hasher.update(&[0; 4]);
    }
    Hash { text: spell(hasher.finish()), exact }
}

/// The text over which [`hash`] is computed before the collision count comes in, to find out why two
/// hashes differ. `None` for a template that is not hashed exactly.
#[must_use]
pub fn dump_text(template_json: &str) -> Option<String> {
    let template = serde_json::from_str(template_json).ok()?;
    let mut out = String::new();
    dump::dump(&template, shape(), &mut out).ok()?;
    Some(out)
}

/// The type of a pod template.
fn shape() -> &'static Shape {
    static SHAPE: OnceLock<Shape> = OnceLock::new();
    SHAPE.get_or_init(|| {
        let id = Table::get().named("io.k8s.api.core.v1.PodTemplateSpec").expect("the table has pod templates");
        Shape { kind: Kind::Struct(id), named: None }
    })
}

/// Decimal digits in the alphabet of `k8s.io/apimachinery/pkg/util/rand`, each byte by its remainder.
fn spell(sum: u32) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut digits = String::new();
    // Writing into a string does not fail.
    let _ = write!(digits, "{sum}");
    digits.bytes().map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).collect()
}
