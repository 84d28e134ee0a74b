//! Which manager of this process answers: the one there is, or of several the one that leads.

use std::sync::Arc;

use muster_inspect::explain::Role;
use muster_runtime::election::Leadership;
use muster_runtime::explain::Explainer;

/// Names the manager that answers and its role at that moment; none where none leads.
pub type Teller = Arc<dyn Fn() -> Option<(Explainer, Role)> + Send + Sync>;

/// The only manager of a process, which may be in an election with others.
pub(crate) fn alone(explainer: Explainer, leadership: Option<&Leadership>) -> Teller {
    let leading = leadership.map(Leadership::leading);
    Arc::new(move || {
        let role = match &leading {
            None => Role::Unelected,
            Some(leading) if *leading.borrow() => Role::Leader,
            Some(_) => Role::Standby,
        };
        Some((explainer.clone(), role))
    })
}
