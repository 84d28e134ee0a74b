//! A number, or a percentage of one: `maxSurge` and `maxUnavailable`.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::names::GoQuoted;

/// The highest number that a percentage stands for: sums of it and of int32s fit into 64 bits.
const MOST: i128 = 1 << 62;

/// `intstr.IntOrString` as the rollout of a Deployment uses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IntOrPercent {
    /// A plain number.
    Int(i32),
    /// A percentage; written back with its sign.
    Percent(i64),
    /// A text that is neither. It is kept, and refused where it is used.
    Other(Box<str>),
}

impl IntOrPercent {
    /// The number that is meant, given what 100% is. Percentages are rounded up or down, and stop at 2^62.
    ///
    /// # Errors
    ///
    /// Where the text is no percentage, in upstream's words.
    pub fn scaled(&self, total: i32, round_up: bool) -> Result<i64, IntOrPercentError> {
        match self {
            Self::Int(value) => Ok(i64::from(*value)),
            Self::Percent(percent) => {
                let hundredths = i128::from(*percent) * i128::from(total);
                let down = hundredths.div_euclid(100);
                let number = if round_up && hundredths.rem_euclid(100) != 0 { down + 1 } else { down };
                Ok(i64::try_from(number.clamp(-MOST, MOST)).unwrap_or_default())
            }
            Self::Other(text) => Err(IntOrPercentError { text: text.clone() }),
        }
    }
}

impl From<&str> for IntOrPercent {
    fn from(text: &str) -> Self {
        let percent = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
        percent.map_or_else(|| Self::Other(text.into()), Self::Percent)
    }
}

impl From<i32> for IntOrPercent {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => serializer.serialize_i32(*value),
            Self::Percent(_) | Self::Other(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherVisitor;
        impl Visitor<'_> for EitherVisitor {
            type Value = IntOrPercent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an int32 or a percentage")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<IntOrPercent, E> {
                i32::try_from(value).map(IntOrPercent::Int).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<IntOrPercent, E> {
                i32::try_from(value).map(IntOrPercent::Int).map_err(E::custom)
            }

            fn visit_str<E>(self, text: &str) -> Result<IntOrPercent, E> {
                Ok(IntOrPercent::from(text))
            }
        }
        deserializer.deserialize_any(EitherVisitor)
    }
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntOrPercentError {
    /// The text.
    pub text: Box<str>,
}

impl fmt::Display for IntOrPercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid value for IntOrString: ")?;
        match self.text.strip_suffix('%') {
            None => f.write_str("invalid type: string is not a percentage"),
            Some(digits) => {
                let too_large = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let why = if too_large { "value out of range" } else { "invalid syntax" };
                write!(f, "invalid value {}: strconv.Atoi: parsing {}: {why}", GoQuoted(&self.text), GoQuoted(digits))
            }
        }
    }
}

impl std::error::Error for IntOrPercentError {}
