//! Durations in files, as people write them: `200ms`, `1m30s`, and ranges of them: `0s..2s`.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::de::{Error as _, Visitor};
use serde::{Deserializer, Serializer};

/// A duration such that reading it gives the same one, to the nanosecond: `1.5s`, `20ms`.
#[must_use]
pub fn written(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    match duration.as_secs() {
        0 if nanos == 0 => "0s".to_owned(),
        0 if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        0 => format!("{nanos}ns"),
        seconds => {
            let mut text = seconds.to_string();
            if nanos > 0 {
                // Writing to a string does not fail.
                let _ = write!(text, ".{nanos:09}");
                text.truncate(text.trim_end_matches('0').len());
            }
            text + "s"
        }
    }
}

fn read(text: &str) -> Result<Duration, String> {
    muster_runtime::duration::parse_duration(text).map_err(|error| error.to_string())
}

struct Text<T>(fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration, such as 200ms, 1.5s or 1m30s")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        (self.0)(&number.to_string()).map_err(E::custom)
    }
}

/// A duration.
pub mod duration {
    use super::*;

    /// Writes it.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&written(*duration))
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where the text is something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        from.deserialize_str(Text(read))
    }
}

/// A duration that may be left out.
pub mod optional_duration {
    use super::*;

    /// Writes it.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => to.serialize_str(&written(*duration)),
            None => to.serialize_none(),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where the text is something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        from.deserialize_str(Text(read)).map(Some)
    }
}

/// A range of durations. One without a width is written as one duration.
pub mod range {
    use std::ops::Range;

    use super::*;

    /// Writes it.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(range: &Range<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match range.start == range.end {
            true => to.serialize_str(&written(range.start)),
            false => to.serialize_str(&format!("{}..{}", written(range.start), written(range.end))),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where the text is something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Range<Duration>, D::Error> {
        from.deserialize_str(Text(|text| match text.split_once("..") {
            None => read(text).map(|both| both..both),
            Some((start, end)) => match (read(start)?, read(end)?) {
                (start, end) if start <= end => Ok(start..end),
                _ => Err(format!("found {text:?}, expected the shorter duration first")),
            },
        }))
        .map_err(D::Error::custom)
    }
}
