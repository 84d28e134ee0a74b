//! What is let pass because a stored object already has it: an update must not fail for an old sin.

use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::{Errors, Path, name, selector};

use super::{affinity, annotations, resources, security};

/// What is let pass. All false for a new object.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own, as in the reference")]
pub struct Options {
    /// The spec is a pod's own, not a template's.
    pub is_pod: bool,
    /// Invalid values in the label selectors of affinity terms.
    pub invalid_affinity_selectors: bool,
    /// Invalid values in required node affinity.
    pub invalid_node_affinity: bool,
    /// Invalid label selectors in topology spread constraints.
    pub invalid_spread_selectors: bool,
    /// Huge pages that are no whole number of pages.
    pub indivisible_huge_pages: bool,
    /// Projected token paths that leave the volume.
    pub any_token_path: bool,
    /// Sysctls of a namespace that the pod shares with the host.
    pub host_sysctls: bool,
    /// SELinux change policies other than `Recursive`.
    pub any_selinux_policy: bool,
    /// A pod deletion cost that is no number.
    pub any_deletion_cost: bool,
    /// Volume devices together with a user namespace.
    pub devices_without_host_users: bool,
    /// `RestartContainer` in the resize policy of init containers that are no sidecars.
    pub restart_init_on_resize: bool,
}

impl Options {
    /// For a pod; `old` is what is stored.
    pub(super) fn for_pod(old: Option<&Object>) -> Self {
        Self { is_pod: true, ..Self::tolerating(old) }
    }

    /// For a template; `old` is what is stored.
    pub(super) fn for_template(old: Option<&Object>) -> Self {
        Self::tolerating(old)
    }

    fn tolerating(old: Option<&Object>) -> Self {
        let Some(old) = old else { return Self::default() };
        let empty = Object::new();
        let spec = old.object("spec").unwrap_or(&empty);
        let context = spec.object("securityContext");
        let strict = Self::default();
        let path = Path::new("old");
        let fails = |check: &dyn Fn(&mut Errors)| {
            let mut errors = Errors::new();
            check(&mut errors);
            !errors.is_empty()
        };
        let invalid_values = |list: &[&Object]| {
            list.iter().any(|term| term.strings("values").any(|v| !name::is_label_value(v).is_empty()))
        };
        let spread = fails(&|errors| {
            for constraint in spec.items("topologySpreadConstraints") {
                if let Some(own) = constraint.object("labelSelector") {
                    selector::validate(own, false, &path, errors);
                }
            }
        });
        let restarts = spec.items("initContainers").any(|c| {
            c.text("restartPolicy") != "Always"
                && c.items("resizePolicy").any(|p| p.text("restartPolicy") == "RestartContainer")
        });
        let mut devices = false;
        super::every_container(spec, &path, |c, _| devices |= !c.list("volumeDevices").is_empty());
        Self {
            is_pod: false,
            invalid_affinity_selectors: invalid_values(&affinity::selector_requirements(spec)),
            invalid_node_affinity: invalid_values(&affinity::required_node_requirements(spec)),
            invalid_spread_selectors: spread,
            indivisible_huge_pages: resources::has_indivisible_huge_pages(spec),
            any_token_path: spec.items("volumes").any(|v| {
                v.object("projected").is_some_and(|p| {
                    p.items("sources").any(|s| {
                        s.object("serviceAccountToken")
                            .is_some_and(|t| fails(&|errors| super::sources::local_path(t.text("path"), &path, errors)))
                    })
                })
            }),
            host_sysctls: fails(&|errors| {
                if let Some(context) = context {
                    security::host_sysctls(context, spec, &path, errors);
                }
            }),
            any_selinux_policy: context.is_some_and(|c| c.contains_key("seLinuxChangePolicy")),
            any_deletion_cost: fails(&|errors| annotations::deletion_cost(metadata(old), &path, &strict, errors)),
            devices_without_host_users: spec.maybe_flag("hostUsers") == Some(false) && devices,
            restart_init_on_resize: restarts,
        }
    }
}
