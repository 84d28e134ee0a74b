//! Who may have an object explained: whoever may read it, and the API server says who that is.
//!
//! The manager lends nobody its own eyes. It reads the object with the caller's token and nothing else, and the pods of
//! the namespace (for a Deployment its ReplicaSets too), metadata only and one of them at most. To be told of all objects
//! one has to be let list each kind in all namespaces. Whatever the API server refuses is refused in its words. The token
//! is neither kept nor logged.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use kube::config::AuthInfo;
use muster_objects::meta::ObjectKey;
use muster_runtime::client::{ApiError, Client, ClientError, Form, Options};
use muster_runtime::explain::Kind;
use muster_runtime::informer::WatchedResource;

/// How long the API server has to decide.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest token: no header of an API server is longer.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Makes a client of one token and no other credentials.
type Connect = Arc<dyn Fn(&str) -> Result<Client, ClientError> + Send + Sync>;

/// Asks the API server who may be told what a manager knows.
#[derive(Clone)]
pub struct Authorizer {
    connect: Connect,
}

impl Authorizer {
    /// One that asks the API server that `config` names. Of `config` only the way there is used.
    pub(crate) fn new(config: &kube::Config) -> Self {
        let mut way = config.clone();
        way.auth_info = AuthInfo::default();
        way.headers = Vec::new();
        Self::deciding(move |token| {
            let mut ways = way.clone();
            ways.auth_info.token = Some(token.to_owned().into());
            Client::connect(&ways, &Options::default())
        })
    }

    /// One that asks the server that `connect` leads to.
    pub(crate) fn deciding(connect: impl Fn(&str) -> Result<Client, ClientError> + Send + Sync + 'static) -> Self {
        Self { connect: Arc::new(connect) }
    }

    /// Lets the bearer of this header pass, if the API server does: to what is known of an object, or else of all.
    ///
    /// # Errors
    /// The refusal, as a `Status` tells it.
    pub(crate) async fn pass(
        &self,
        authorization: Option<&HeaderValue>,
        object: Option<(Kind, &ObjectKey)>,
    ) -> Result<(), ApiError> {
        let token = authorization.and_then(bearer).ok_or_else(|| {
            let message = "the header \"Authorization: Bearer TOKEN\" is missing: a token of the API server is needed";
            refusal(401, "Unauthorized", message)
        })?;
        // Nothing of the error is told: its words may have the token's in them.
        let client = (self.connect)(token)
            .map_err(|_| refusal(401, "Unauthorized", "the token cannot stand in a header of a request"))?;
        match tokio::time::timeout(PATIENCE, reads(&client, object)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ClientError::Api(refused))) => Err(*refused),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the API server was not asked whether a caller may have an object explained");
                Err(refusal(503, "ServiceUnavailable", "the API server, which decides who may ask, was not reached"))
            }
            Err(_) => Err(refusal(504, "Timeout", "the API server, which decides who may ask, did not answer in time")),
        }
    }
}

async fn reads(client: &Client, object: Option<(Kind, &ObjectKey)>) -> Result<(), ClientError> {
    let (pods, replicasets) = (WatchedResource::pods(), WatchedResource::replicasets());
    let lists = match object {
        Some((kind, ObjectKey { namespace, name })) => {
            client.get_as(&kind.resource().path(namespace, name), Form::Metadata).await?;
            if kind == Kind::Deployment { vec![pods, replicasets] } else { vec![pods] }
        }
        None => vec![WatchedResource::deployments(), replicasets, WatchedResource::replicationcontrollers(), pods],
    };
    let namespace = object.map(|(_, key)| &*key.namespace);
    for resource in lists {
        client.get_as(&format!("{}?limit=1", resource.collection(namespace)), Form::MetadataList).await?;
    }
    Ok(())
}

/// The token of `Bearer TOKEN`.
fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let fits = !token.is_empty() && token.len() <= LONGEST_TOKEN && !token.contains(' ');
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

/// A refusal of our own.
pub fn refusal(code: u16, reason: &str, message: impl Into<String>) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: message.into(), details: None }
}

#[cfg(test)]
#[path = "authorizer_tests.rs"]
mod tests;
