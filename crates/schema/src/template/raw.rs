//! The hash label set in, or taken out of, a template's JSON, every other byte left as it is.

use std::borrow::Cow;
use std::ops::Range;

use super::HASH_LABEL;
use super::scan::Object;

/// A pod template's JSON with `metadata.labels["pod-template-hash"]` set. Metadata and labels that are
/// absent or null are made; everything else stays byte for byte. A text that is no JSON object, or
/// whose metadata or labels are of another type, comes back as it is.
#[must_use]
pub fn raw_with_hash_label(template_json: &str, hash: &str) -> String {
    let value = serde_json::Value::from(hash).to_string();
    set(template_json, &value).unwrap_or_else(|| template_json.to_owned())
}

/// A pod template's JSON without that label, everything else byte for byte: labels that have become
/// empty stay as `{}`.
#[must_use]
pub fn raw_without_hash_label(template_json: &str) -> String {
    without_hash_label(template_json).into_owned()
}

/// As [`raw_without_hash_label`]; the text itself where there is no label.
pub(super) fn without_hash_label(text: &str) -> Cow<'_, str> {
    match hash_label(text) {
        Some(cut) => Cow::Owned([&text[..cut.start], &text[cut.end..]].concat()),
        None => Cow::Borrowed(text),
    }
}

/// Where the hash label is, with the comma that goes with it.
fn hash_label(text: &str) -> Option<Range<usize>> {
    let mut object = Object::open(text, labels(text)?.start)?;
    let mut previous_end = None;
    while let Some(member) = object.next()? {
        if member.key == HASH_LABEL {
            // The comma after it goes, or, for the last one, the comma before it.
            return Some(match (member.next, previous_end) {
                (Some(next), _) => member.start..next,
                (None, Some(end)) => end..member.value.end,
                (None, None) => member.start..member.value.end,
            });
        }
        previous_end = Some(member.value.end);
    }
    None
}

/// Where the labels are, if metadata and labels are objects.
fn labels(text: &str) -> Option<Range<usize>> {
    let metadata = Object::open(text, 0)?.find("metadata")??;
    Object::open(text, metadata.start)?.find("labels")?
}

fn set(text: &str, label: &str) -> Option<String> {
    let pair = format!("\"{HASH_LABEL}\":{label}");
    let put = |at: Range<usize>, with: &str| [&text[..at.start], with, &text[at.end..]].concat();
    let is_null = |range: &Range<usize>| text.get(range.clone()) == Some("null");

    let mut template = Object::open(text, 0)?;
    let metadata = match template.find("metadata")? {
        Some(range) if !is_null(&range) => range,
        Some(null) => return Some(put(null, &format!("{{\"labels\":{{{pair}}}}}"))),
        None => {
            return Some(put(template.end(), &template.another(&format!("\"metadata\":{{\"labels\":{{{pair}}}}}"))));
        }
    };
    let mut metadata = Object::open(text, metadata.start)?;
    let labels = match metadata.find("labels")? {
        Some(range) if !is_null(&range) => range,
        Some(null) => return Some(put(null, &format!("{{{pair}}}"))),
        None => return Some(put(metadata.end(), &metadata.another(&format!("\"labels\":{{{pair}}}")))),
    };
    let mut labels = Object::open(text, labels.start)?;
    Some(match labels.find(HASH_LABEL)? {
        Some(value) => put(value, label),
        None => put(labels.end(), &labels.another(&pair)),
    })
}
