//! What tables have in common: ages in words, and the cells that describe a pod template.

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::Object;
use super::fields::Fields;
use crate::validation::selector;

/// What the column `Name` says of itself.
pub const NAME_DOC: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// What the column `Age` says of itself.
pub const AGE_DOC: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The object's name.
#[must_use]
pub fn name(object: &Object) -> Value {
    super::fields::metadata(object).text("name").into()
}

/// The object's age in words.
#[must_use]
pub fn age(object: &Object, now: Timestamp) -> Value {
    since(super::fields::metadata(object).text("creationTimestamp"), now).into()
}

/// How long ago a time in RFC 3339 was, in words; `<unknown>` where there is none.
#[must_use]
pub fn since(time: &str, now: Timestamp) -> String {
    match Timestamp::parse(time) {
        Ok(then) => human_duration(now.nanos_since(then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration of so many nanoseconds with two or three significant figures, as kubectl shows ages.
#[must_use]
pub fn human_duration(nanos: i64) -> String {
    // Whole seconds towards zero: clocks may differ by up to two seconds before it is nonsense.
    let seconds = nanos / 1_000_000_000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i64, unit: char, small: i64, rest: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{rest}") }
    };
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 0 {
        "0s".to_owned()
    } else if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        two(days, 'd', hours % 24, 'h')
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

/// The names and the images of a template's containers, each joined by commas.
#[must_use]
pub fn containers(template: Option<&Object>) -> [Value; 2] {
    let join = |field: &str| {
        let each: Vec<&str> = template
            .and_then(|t| t.object("spec"))
            .map(|spec| spec.items("containers").map(|c| c.text(field)).collect())
            .unwrap_or_default();
        Value::from(each.join(","))
    };
    [join("name"), join("image")]
}

/// A selector as `metav1.FormatLabelSelector` shows it.
#[must_use]
pub fn label_selector(selector: Option<&Object>) -> String {
    match selector::parse(selector) {
        Ok(parsed) => {
            let text = parsed.to_string();
            if text.is_empty() { "<none>".to_owned() } else { text }
        }
        Err(_) => "<error>".to_owned(),
    }
}

/// Labels as `labels.FormatLabels` shows them.
#[must_use]
pub fn labels(map: Option<&Object>) -> String {
    let mut each: Vec<String> = map
        .map(|m| m.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect())
        .unwrap_or_default();
    each.sort_unstable();
    if each.is_empty() { "<none>".to_owned() } else { each.join(",") }
}

/// The first few of a list, and how many more there are.
#[must_use]
pub fn first(each: &[String], most: usize) -> String {
    let shown = each.iter().take(most).cloned().collect::<Vec<_>>().join(",");
    if each.len() > most { format!("{shown} + {} more...", each.len() - most) } else { shown }
}

/// A text, or `other` where it is empty.
#[must_use]
pub fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-05
    #[test]
    fn ages_in_words() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 5, "2m5s"),
            (10 * MINUTE + 5, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 20 * MINUTE, "3h20m"),
            (8 * HOUR + 20 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (800 * DAY, "2y70d"),
            (730 * DAY, "2y"),
            (4000 * DAY, "10y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human_duration(seconds * 1_000_000_000), want, "{seconds}");
        }
        assert_eq!(human_duration(-1_500_000_000), "0s");
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since("1970-01-01T00:00:00Z", Timestamp::from_seconds(7)), "7s");
    }
}
