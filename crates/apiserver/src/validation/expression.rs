//! What is wrong with an expression of an object.

use std::fmt;

use crate::field::FieldError;

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It says what it may not.
    Invalid(String),
    /// It fails whatever it is run with.
    Internal(String),
    /// It may cost too much.
    Costly,
}

impl Wrong {
    /// As it is told of a field.
    pub fn of(self, path: impl Into<String>, text: &str) -> FieldError {
        match self {
            Self::Invalid(why) => FieldError::invalid(path, text, why),
            Self::Internal(why) => FieldError::internal(path, why),
            Self::Costly => FieldError::forbidden(path, self.to_string()),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) | Self::Internal(why) => f.write_str(why),
            Self::Costly => f.write_str("too complex, exceeds cost limit"),
        }
    }
}
