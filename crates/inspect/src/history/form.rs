//! How times, versions and patches are written: for readers in JSON, and in few bytes where they are kept.

use serde_json::Value;

/// A point in time: RFC 3339 with six digits of a fraction, or nanoseconds.
pub(crate) mod time {
    use muster_objects::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { to.collect_str(&time.micro()) } else { to.serialize_i64(time.as_nanos()) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        if !from.is_human_readable() {
            return i64::deserialize(from).map(Timestamp::from_nanos);
        }
        Timestamp::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The same where there may be none.
pub(crate) mod maybe_time {
    use muster_objects::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Time(#[serde(with = "super::time")] Timestamp);

    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Time).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<Time>::deserialize(from)?.map(|Time(time)| time))
    }
}

/// How long something took: seconds with a fraction, or microseconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if to.is_human_readable() { to.serialize_f64(micros as f64 / 1e6) } else { to.serialize_u64(micros) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        if !from.is_human_readable() {
            return u64::deserialize(from).map(Duration::from_micros);
        }
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The same where there may be none.
pub(crate) mod maybe_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Seconds(#[serde(with = "super::seconds")] Duration);

    pub(crate) fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Seconds).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Seconds>::deserialize(from)?.map(|Seconds(time)| time))
    }
}

/// A resourceVersion: text, or a number.
pub(crate) mod version {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(version: &u64, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { to.collect_str(version) } else { to.serialize_u64(*version) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        if !from.is_human_readable() {
            return u64::deserialize(from);
        }
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The same where there may be none.
pub(crate) mod maybe_version {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Version(#[serde(with = "super::version")] u64);

    pub(crate) fn serialize<S: Serializer>(version: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        version.map(Version).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Version>::deserialize(from)?.map(|Version(version)| version))
    }
}

/// JSON that is kept as text, and is part of the JSON that it is told in.
pub(crate) mod json {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
    use serde_json::Value;

    pub(crate) fn serialize<S: Serializer>(text: &Option<Cow<'_, str>>, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return text.serialize(to);
        }
        let value: Option<Value> = text.as_deref().map(serde_json::from_str).transpose().map_err(S::Error::custom)?;
        value.serialize(to)
    }

    pub(crate) fn deserialize<'de, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'a, str>>, D::Error> {
        if !from.is_human_readable() {
            return Ok(Option::<String>::deserialize(from)?.map(Cow::Owned));
        }
        Ok(Option::<Value>::deserialize(from)?.map(|value| Cow::Owned(value.to_string())))
    }
}

/// Removes what is absent: nulls, and lists of nothing. What an object wrote of itself, its status, stays as it is.
pub(crate) fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members
                .retain(|_, value| !matches!(value, Value::Null) && value.as_array().is_none_or(|all| !all.is_empty()));
            members.iter_mut().filter(|(name, _)| *name != "status").for_each(|(_, value)| prune(value));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}
