//! Claims: whether an owner would have taken an object, or given it up.

use muster_machinery::claim::{Claim, claim};
use muster_objects::Selector;
use muster_objects::meta::Meta;

use super::action::Did;

/// Whether one of the states of the owner would have done it to one of the states of the object.
pub fn explains<'a>(
    did: &Did,
    owners: impl IntoIterator<Item = (&'a Meta, &'a Selector)>,
    objects: &(impl Iterator<Item = &'a Meta> + Clone),
) -> bool {
    let wanted = match did {
        Did::Adopt => Claim::Adopt,
        Did::Release => Claim::Release,
        _ => return false,
    };
    let would =
        |(owner, selector): (&Meta, &Selector)| objects.clone().any(|object| claim(owner, selector, object) == wanted);
    owners.into_iter().any(would)
}
