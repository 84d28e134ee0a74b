//! Questions of expressions: what the one who sent a request, or a service account, may do.

use super::User;
use super::attributes::{Attributes, ResourceAttributes};
use super::authorizer::Authorizer as Access;
use crate::cel::{Asked, Authorizer, Decision};

/// Answers the questions of expressions about a request of a user.
#[derive(Debug)]
pub struct Answers<'a>(pub &'a Access, pub &'a User);

impl Authorizer for Answers<'_> {
    fn decide(&self, asked: &Asked) -> Decision {
        let Self(access, user) = self;
        let account = asked.service_account.as_ref().map(|(namespace, name)| User::service_account(namespace, name));
        let attributes = match &asked.path {
            Some(path) => Attributes::Path { verb: (&*asked.verb).into(), path },
            None => Attributes::Resource(ResourceAttributes {
                verb: (&*asked.verb).into(),
                group: &asked.group,
                resource: &asked.resource,
                subresource: &asked.subresource,
                namespace: &asked.namespace,
                name: &asked.name,
            }),
        };
        let decided = access.decide(account.as_ref().unwrap_or(user), &attributes);
        Decision { allowed: decided.allowed, reason: decided.reason, error: String::new() }
    }
}
