//! The regular expressions of an expression, of which each is compiled once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::Budget;
use super::eval::Failure;
use crate::custom::pattern::{self, Regex};

type ByText = BTreeMap<String, Arc<Regex>>;

/// Those that an expression says as they are: kept from one run to the next.
#[derive(Debug, Default)]
pub(super) struct Constants(Mutex<ByText>);

/// Those that one run has met.
pub(super) struct Met<'p> {
    constants: &'p Constants,
    computed: ByText,
}

impl<'p> Met<'p> {
    /// None yet.
    pub(super) fn new(constants: &'p Constants) -> Self {
        Self { constants, computed: ByText::new() }
    }

    /// The one with this text. What a computed one takes is counted: there may be as many as there are elements.
    pub(super) fn get(&mut self, text: &str, is_constant: bool, budget: &mut Budget) -> Result<Arc<Regex>, Failure> {
        let mut constants = self.constants.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = if is_constant { &mut *constants } else { &mut self.computed };
        if let Some(regex) = known.get(text) {
            return Ok(Arc::clone(regex));
        }
        let regex = Arc::new(pattern::compile(text)?);
        if !is_constant {
            budget.hold(regex.size())?;
        }
        known.insert(text.to_owned(), Arc::clone(&regex));
        Ok(regex)
    }
}
