//! The regular expressions of an expression, of which each is compiled once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::Budget;
use super::eval::Failure;
use crate::custom::pattern::{self, Regex};

/// The largest that is computed, in bytes: anybody may write what it is computed of.
const LARGEST_COMPUTED: usize = 16 << 20;

type ByText = BTreeMap<String, Arc<Regex>>;

/// Those that an expression says as they are: kept from one run to the next.
#[derive(Debug, Default)]
pub(super) struct Constants(Mutex<ByText>);

impl Constants {
    /// The one with this text. It is compiled while nobody waits for it: twice at worst.
    fn get(&self, text: &str) -> Result<Arc<Regex>, Failure> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = known().get(text) {
            return Ok(Arc::clone(regex));
        }
        let regex = Arc::new(pattern::compile(text)?);
        Ok(Arc::clone(known().entry(text.to_owned()).or_insert(regex)))
    }
}

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
        if is_constant {
            return self.constants.get(text);
        }
        if let Some(regex) = self.computed.get(text) {
            return Ok(Arc::clone(regex));
        }
        let regex = Arc::new(pattern::compile_within(text, LARGEST_COMPUTED)?);
        budget.hold(regex.size())?;
        self.computed.insert(text.to_owned(), Arc::clone(&regex));
        Ok(regex)
    }
}
