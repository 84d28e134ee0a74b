//! Who sends a request, and whether they may.

use std::sync::Arc;

use http::request::Parts;

use super::path::Target;
use super::{Service, attributes, timeout};
use crate::access::authentication::Holder;
use crate::access::{User, impersonation};
use crate::registry::options::Query;
use crate::status::ApiError;

impl Service {
    /// Who is to be taken for the caller, if the caller may send this request at all.
    pub(super) fn admit(
        &self,
        parts: &Parts,
        path: &str,
        target: &Target<'_>,
        query: &Query,
    ) -> Result<Arc<User>, ApiError> {
        let caller = self.caller(parts);
        let plain = query.get("timeout").is_none() && !impersonation::is_asked_for(&parts.headers);
        if plain && caller.as_ref().is_ok_and(|caller| caller.may_do_anything()) {
            return caller;
        }
        let attributes = attributes::of(&parts.method, path, target, query);
        timeout::check(query, &attributes)?;
        let caller = caller?;
        let authorizer = &self.shared.registry.authorizer;
        let user = self.shared.impersonation.user(authorizer, &caller, &parts.headers, &attributes)?;
        let user = user.map_or(caller, Arc::new);
        authorizer.check(&user, &attributes)?;
        Ok(user)
    }

    /// The name of whose credential a request carries; none where nobody's is.
    #[must_use]
    pub fn name_of_caller(&self, parts: &Parts) -> Option<String> {
        self.caller(parts).ok().map(|caller| caller.name.clone())
    }

    /// Whose credential a request carries.
    fn caller(&self, parts: &Parts) -> Result<Arc<User>, ApiError> {
        if let Some(caller) = &self.caller {
            return Ok(Arc::clone(caller));
        }
        let registry = &self.shared.registry;
        self.shared.authenticator.user(
            parts.uri.path(),
            &parts.headers,
            parts.extensions.get::<Holder>(),
            &**registry,
            registry.clock.now(),
        )
    }
}
