//! Label selectors: parsed once, then matched against many label sets.
//!
//! A [`Selector`] comes from an object's [`LabelSelector`] or from the string form that URLs carry
//! ([`Selector::parse`]). Both follow apimachinery to the letter, error messages included.

mod parse;
mod requirement;
mod wire;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use requirement::{Operator, Requirement};
pub use wire::{LabelSelector, LabelSelectorRequirement};

use crate::labels::Labels;

/// A parsed label selector: requirements that all must hold, sorted by key. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// `None` is the selector that matches nothing, whatever the labels.
    requirements: Option<Arc<[Requirement]>>,
}

impl Selector {
    /// The selector that matches everything.
    #[must_use]
    pub fn everything() -> Self {
        Self::new([])
    }

    /// The selector that matches nothing: what an absent `LabelSelector` means.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// The selector of these requirements.
    #[must_use]
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Self { requirements: Some(requirements.into()) }
    }

    /// Parses the string form: `app=web,tier in (a,b),!canary,weight>3`.
    ///
    /// # Errors
    ///
    /// With apimachinery's message, such as
    /// `unable to parse requirement: found '', expected: identifier`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text)
    }

    /// Whether the labels satisfy every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_fn(|key| labels.get(key))
    }

    /// Whether the labels that `get` looks up satisfy every requirement.
    pub fn matches_fn<'a>(&self, mut get: impl FnMut(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|requirement| requirement.matches(get(requirement.key()))),
            None => false,
        }
    }

    /// Whether the selector restricts nothing. The one that matches nothing is not empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_everything()
    }

    /// Whether every label set matches; the same as [`Selector::is_empty`].
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether no label set can match because the selector says so outright.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// The requirements in the order of their keys; none where the selector is everything or nothing.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }
}

/// The string form, as apimachinery writes it; `parse` takes it back.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = SelectorError;

    /// As `metav1.LabelSelectorAsSelector` does; the empty selector matches everything.
    fn try_from(wire: &LabelSelector) -> Result<Self, SelectorError> {
        wire.to_selector()
    }
}

/// Why a selector is invalid, in apimachinery's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    message: Box<str>,
}

impl SelectorError {
    pub(crate) fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into() }
    }

    /// The message, as a `Status` shows it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
