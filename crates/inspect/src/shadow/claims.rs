//! Claims: whether an owner would have adopted or released an object.

use muster_machinery::claim::{Claim, claim};
use muster_objects::Selector;
use muster_objects::meta::Meta;

use super::action::ActionKind;

/// Whether some state of the owner would have made this claim on some state of the object.
pub fn explains<'a>(
    did: &ActionKind,
    owners: impl IntoIterator<Item = (&'a Meta, &'a Selector)>,
    objects: &(impl Iterator<Item = &'a Meta> + Clone),
) -> bool {
    let wanted = match did {
        ActionKind::Adopt => Claim::Adopt,
        ActionKind::Release => Claim::Release,
        _ => return false,
    };
    let would =
        |(owner, selector): (&Meta, &Selector)| objects.clone().any(|object| claim(owner, selector, object) == wanted);
    owners.into_iter().any(would)
}
