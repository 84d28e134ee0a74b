//! The authorizer: whether somebody may do something (API-31).
//!
//! ```text
//!   storage: roles, bindings -- cursors --> Policy --> decision
//! ```
//!
//! The roles and bindings that are stored are read when the first decision needs them. From then on their changes are,
//! at a decision that finds the storage changed. Whoever is in the group `system:masters` needs none of that.

use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock};

use super::User;
use super::attributes::{Attributes, ResourceAttributes, forbidden};
use super::rbac::{MissingRole, Policy, RoleRef, Rule, aggregate};
use crate::status::ApiError;
use crate::storage::{Cursor, EventKind, Range, ResourceId, Storage};

/// Which requests are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// All that come with a credential.
    AlwaysAllow,
    /// What roles and bindings allow.
    #[default]
    Rbac,
    /// Those of the group that may do anything.
    AlwaysDeny,
}

/// What the authorizer says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why, or what was wrong with the roles that could have allowed it; may be empty.
    pub reason: String,
}

/// The rules that somebody has.
#[derive(Debug, Default)]
pub struct Rules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// What was wrong with roles that might have more.
    pub errors: Vec<String>,
}

/// The tables of roles and bindings.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// ClusterRoles.
    pub cluster_roles: ResourceId,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: ResourceId,
    /// Roles.
    pub roles: ResourceId,
    /// RoleBindings.
    pub role_bindings: ResourceId,
}

/// Decides what is allowed.
#[derive(Debug)]
pub struct Authorizer {
    mode: Mode,
    storage: Arc<Storage>,
    /// `None` where no such kinds are served: then nobody has a role.
    tables: Option<Tables>,
    /// `None` until it is needed.
    read: RwLock<Option<Read>>,
}

/// What was read of the storage.
#[derive(Debug)]
struct Read {
    policy: Policy,
    /// As of when it is true.
    moment: Moment,
    cursors: [(What, Cursor); 4],
}

/// A state of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    restores: u64,
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Role,
    Binding,
}

impl Authorizer {
    /// Whether this is allowed.
    ///
    /// # Errors
    /// 403 if it is not.
    pub fn check(&self, user: &User, asked: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.decide(user, asked);
        if decision.allowed { Ok(()) } else { Err(forbidden(user, asked, &decision.reason)) }
    }

    /// An authorizer over the tables of a storage.
    #[must_use]
    pub fn new(mode: Mode, storage: Arc<Storage>, tables: Option<Tables>) -> Self {
        Self { mode, storage, tables, read: RwLock::new(None) }
    }

    /// Which requests are allowed.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether somebody may do something.
    #[must_use]
    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.may_do_anything() || self.mode == Mode::AlwaysAllow {
            return Decision { allowed: true, reason: String::new() };
        }
        if self.mode == Mode::AlwaysDeny {
            return Decision { allowed: false, reason: "Everything is forbidden.".to_owned() };
        }
        let mut allowed = None;
        let mut errors = Vec::new();
        self.with_policy(|policy| {
            policy.visit(user, attributes.namespace(), |visited| {
                match visited {
                    Ok((source, rule)) if rule.allows(attributes) => {
                        allowed = Some(format!("RBAC: allowed by {source}"));
                        return ControlFlow::Break(());
                    }
                    Ok(_) => {}
                    Err(missing) => errors.push(missing.to_string()),
                }
                ControlFlow::Continue(())
            });
        });
        match allowed {
            Some(reason) => Decision { allowed: true, reason },
            None if errors.is_empty() => Decision { allowed: false, reason: String::new() },
            None => Decision { allowed: false, reason: format!("RBAC: {}", aggregate(&errors)) },
        }
    }

    /// Whether somebody may do something to a resource.
    #[must_use]
    pub fn allows(&self, user: &User, asked: ResourceAttributes<'_>) -> bool {
        self.decide(user, &Attributes::Resource(asked)).allowed
    }

    /// The rules that somebody has in a namespace. `say` words what is wrong with a role.
    #[must_use]
    pub fn rules_for(&self, user: &User, namespace: &str, say: impl Fn(MissingRole<'_>) -> String) -> Rules {
        if self.mode == Mode::AlwaysAllow {
            return Rules { rules: Rule::everything().into(), errors: Vec::new() };
        }
        if self.mode == Mode::AlwaysDeny {
            return Rules::default();
        }
        let mut found = Rules::default();
        self.with_policy(|policy| {
            policy.visit(user, namespace, |visited| {
                match visited {
                    Ok((_, rule)) => found.rules.push(rule.clone()),
                    Err(missing) => found.errors.push(say(missing)),
                }
                ControlFlow::Continue(())
            });
        });
        found
    }

    /// The rules of a role that a binding in a namespace names.
    ///
    /// # Errors
    /// [`MissingRole`].
    pub fn rules_of<'r>(&self, role: &'r RoleRef, namespace: &str) -> Result<Vec<Rule>, MissingRole<'r>> {
        self.with_policy(|policy| policy.rules_of(role, namespace).map(<[Rule]>::to_vec))
    }

    /// Asks the policy as it is now.
    fn with_policy<R>(&self, ask: impl FnOnce(&Policy) -> R) -> R {
        let Some(tables) = self.tables else { return ask(&Policy::default()) };
        {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(read) = read.as_ref().filter(|read| read.moment == Moment::of(&self.storage)) {
                return ask(&read.policy);
            }
        }
        let mut place = self.read.write().unwrap_or_else(PoisonError::into_inner);
        let read = match place.take().and_then(|read| read.caught_up(&self.storage)) {
            Some(read) => Some(read),
            None => Read::all(&self.storage, tables),
        };
        *place = read;
        match place.as_ref() {
            Some(read) => ask(&read.policy),
            None => ask(&Policy::default()),
        }
    }
}

impl Read {
    /// Everything that is stored.
    fn all(storage: &Arc<Storage>, tables: Tables) -> Option<Self> {
        let moment = Moment::of(storage);
        let mut policy = Policy::default();
        let mut read = |what, table| {
            let listed = storage.list(table, &Range::default(), None).ok()?;
            for entry in &listed.entries {
                policy.set(what, &entry.namespace, &entry.name, Some(&entry.json().joined()));
            }
            Some((what, storage.watch(table, "", listed.version).ok()?))
        };
        // Roles first: nobody is shown a binding without its role.
        let cursors = [
            read(What::Role, tables.cluster_roles)?,
            read(What::Role, tables.roles)?,
            read(What::Binding, tables.cluster_role_bindings)?,
            read(What::Binding, tables.role_bindings)?,
        ];
        Some(Self { policy, moment, cursors })
    }

    /// With all changes since; `None` where some of them can be read no more.
    fn caught_up(mut self, storage: &Storage) -> Option<Self> {
        // Read before the changes are: a later commit then makes another look.
        let moment = Moment::of(storage);
        if moment.restores != self.moment.restores {
            return None;
        }
        let mut events = Vec::new();
        for (what, cursor) in &mut self.cursors {
            loop {
                cursor.read(&mut events).ok()?;
                if events.is_empty() {
                    break;
                }
                for event in events.drain(..) {
                    let json = (event.kind != EventKind::Deleted).then(|| event.entry.json().joined());
                    self.policy.set(*what, &event.entry.namespace, &event.entry.name, json.as_deref());
                }
            }
        }
        Some(Self { moment, ..self })
    }
}

impl Moment {
    fn of(storage: &Storage) -> Self {
        let restores = storage.restores();
        Self { restores, version: storage.version() }
    }
}

impl Policy {
    fn set(&mut self, what: What, namespace: &str, name: &str, json: Option<&[u8]>) {
        match what {
            What::Role => self.set_role(namespace, name, json),
            What::Binding => self.set_binding(namespace, name, json),
        }
    }
}
