//! Role based access control: what the roles and bindings that are stored allow (API-31).

pub mod cover;
pub mod policy;
pub mod rule;

pub use policy::{Binding, MissingRole, Policy, RoleRef, Source, Subject};
pub use rule::Rule;

/// Several errors in one, each said once, as the reference puts them.
#[must_use]
pub fn aggregate(errors: &[String]) -> String {
    let mut said: Vec<&str> = Vec::new();
    for error in errors {
        if !said.contains(&error.as_str()) {
            said.push(error);
        }
    }
    match said.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
