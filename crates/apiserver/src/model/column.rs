//! Columns of a kind's table, and how their cells come about (API-05).

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::fields::{Fields as _, metadata};
use super::{Name, Object};

/// A column of a kind's table.
#[derive(Debug, Clone)]
pub struct Column {
    /// The heading, such as `Ready`.
    pub name: Name,
    /// `string`, `integer`, `date` or `boolean`.
    pub kind: Name,
    /// The OpenAPI format; `name` for the name column, else empty.
    pub format: Name,
    /// What `kubectl explain` would say of it.
    pub description: Name,
    /// 0 is always shown, 1 only when wide.
    pub priority: i32,
    /// What stands in it.
    pub cell: Cell,
}

/// Where what stands in a column comes from.
#[derive(Debug, Clone, Copy)]
pub enum Cell {
    /// The kind makes all its cells at once.
    Own,
    /// The text at a JSON pointer; empty where there is none.
    Text(&'static str),
    /// The number at a JSON pointer; 0 where there is none.
    Number(&'static str),
    /// How many entries the list or map at a JSON pointer has.
    Count(&'static str),
    /// Whatever this makes of the object, at a time.
    By(fn(&Object, Timestamp) -> Value),
}

/// The name column that nearly every table begins with.
pub const NAME_COLUMN: Column = Column {
    name: Name::Borrowed("Name"),
    kind: Name::Borrowed("string"),
    format: Name::Borrowed("name"),
    description: Name::Borrowed(NAME_DOC),
    priority: 0,
    cell: Cell::By(|object, _| metadata(object).text("name").into()),
};

/// The age column that nearly every table has.
pub const AGE_COLUMN: Column = Column::text("Age", AGE_DOC).by(|object, now| {
    let created = metadata(object).text("creationTimestamp");
    since(created, now).into()
});

/// The last column of a kind that has no table of its own.
pub const CREATED_AT_COLUMN: Column =
    Column::new("Created At", "date", AGE_DOC).by(|object, _| metadata(object).text("creationTimestamp").into());

const NAME_DOC: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_DOC: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Column {
    /// A column of texts that is always shown.
    #[must_use]
    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "string", description)
    }

    /// A column of whole numbers that is always shown.
    #[must_use]
    pub const fn number(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "integer", description)
    }

    /// A column of what is so or not that is always shown.
    #[must_use]
    pub const fn flag(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "boolean", description)
    }

    /// A column of texts that is shown when wide.
    #[must_use]
    pub const fn wide_text(name: &'static str, description: &'static str) -> Self {
        Self::text(name, description).wide()
    }

    const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self {
            name: Name::Borrowed(name),
            kind: Name::Borrowed(kind),
            format: Name::Borrowed(""),
            description: Name::Borrowed(description),
            priority: 0,
            cell: Cell::Own,
        }
    }

    /// Shown only when wide.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Shown not only when wide.
    #[must_use]
    pub const fn always(mut self) -> Self {
        self.priority = 0;
        self
    }

    /// Filled from a JSON pointer: as a number for a column of numbers, else as text.
    #[must_use]
    pub const fn at(mut self, pointer: &'static str) -> Self {
        self.cell = Cell::Text(pointer);
        self
    }

    /// Filled with the number at a JSON pointer.
    #[must_use]
    pub const fn number_at(mut self, pointer: &'static str) -> Self {
        self.cell = Cell::Number(pointer);
        self
    }

    /// Filled with the number of entries at a JSON pointer.
    #[must_use]
    pub const fn count(mut self, pointer: &'static str) -> Self {
        self.cell = Cell::Count(pointer);
        self
    }

    /// Filled by a function.
    #[must_use]
    pub const fn by(mut self, cell: fn(&Object, Timestamp) -> Value) -> Self {
        self.cell = Cell::By(cell);
        self
    }
}

impl Cell {
    /// What stands in the column for an object.
    #[must_use]
    pub fn of(self, object: &Object, now: Timestamp) -> Value {
        match self {
            Self::Own => Value::Null,
            Self::Text(pointer) => at(object, pointer).and_then(Value::as_str).unwrap_or_default().into(),
            Self::Number(pointer) => at(object, pointer).and_then(Value::as_i64).unwrap_or_default().into(),
            Self::Count(pointer) => match at(object, pointer) {
                Some(Value::Array(list)) => list.len().into(),
                Some(Value::Object(map)) => map.len().into(),
                _ => 0.into(),
            },
            Self::By(make) => make(object, now),
        }
    }
}

/// The value at a JSON pointer below an object.
#[must_use]
pub fn at<'a>(object: &'a Object, pointer: &str) -> Option<&'a Value> {
    let pointer = pointer.strip_prefix('/')?;
    let (first, rest) = pointer.split_at(pointer.find('/').unwrap_or(pointer.len()));
    object.get(first)?.pointer(rest)
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
