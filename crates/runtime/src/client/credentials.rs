//! Who we are to the server, and when that is to be found out again.
//!
//! ```text
//!   exec plugin, token, certificate and key files --run, read--> AuthInfo with all of it inline --kube--> TLS, headers
//!        ^                                                            |
//!        +-- expired, file may have changed, 401 ---------------------+
//! ```
//!
//! As in client-go: a plugin is run when what it gave has expired, files are read again after a time, and a 401 makes
//! either happen before its time. Everything else (tokens, passwords, impersonation) is kube's. All clients of a process
//! that are made from one share what was found out, so that a plugin is run once for all of them.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use http::HeaderValue;
use kube::config::{AuthInfo, ExecConfig};
use muster_objects::time::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;

use super::plugin;
use crate::clock::Clock;

/// How often files are read again.
const RELOAD: Duration = Duration::from_secs(60);
/// A 401 makes nothing be found out that was found out less than this ago.
const SETTLED: Duration = Duration::from_secs(10);

/// Why it is not known who we are. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credentials: {0}")]
pub(super) struct CredentialsError(pub(super) String);

/// What was found out.
#[derive(Clone, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Secrets {
    pub(super) token: Option<String>,
    /// The certificate and its key, as PEM.
    pub(super) certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) expires: Option<Timestamp>,
}

/// What runs a plugin.
type Runner = Box<dyn Fn(ExecConfig) -> BoxFuture<'static, Result<Secrets, CredentialsError>> + Send + Sync>;
type Finding = Shared<BoxFuture<'static, Result<Arc<AuthInfo>, CredentialsError>>>;

/// The credentials of one user of a kubeconfig.
pub(super) struct Credentials {
    /// As the kubeconfig has them.
    auth: AuthInfo,
    clock: Clock,
    run: Runner,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// A running plugin. It goes on even if no request waits for it any longer.
    finding: Option<Finding>,
}

struct Known {
    secrets: Secrets,
    /// The same in the form that kube takes. Another allocation says that there are others.
    auth: Arc<AuthInfo>,
    found_at: Instant,
    /// The server did not take them.
    refused: bool,
}

impl Credentials {
    pub(super) fn new(auth: AuthInfo, clock: Clock) -> Self {
        let run = |plugin: ExecConfig| async move { plugin::run(&plugin).await }.boxed();
        Self { auth, clock, run: Box::new(run), state: Mutex::default() }
    }

    /// The resolved credentials: no plugin is left to run, and no file to read.
    ///
    /// # Errors
    /// If the plugin fails, or a file cannot be read, and there are no earlier credentials that are still valid.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<AuthInfo>, CredentialsError> {
        let finding = {
            let mut state = self.lock();
            match self.known_or_read(&mut state) {
                Some(known) => return known,
                None => state.finding.get_or_insert_with(|| self.find()).clone(),
            }
        };
        finding.await
    }

    /// The same without waiting; `None` if a plugin has to be run.
    pub(super) fn now(&self) -> Option<Result<Arc<AuthInfo>, CredentialsError>> {
        self.known_or_read(&mut self.lock())
    }

    fn known_or_read(&self, state: &mut State) -> Option<Result<Arc<AuthInfo>, CredentialsError>> {
        if let Some(known) = state.known.as_ref().filter(|known| !self.is_due(known)) {
            return Some(Ok(Arc::clone(&known.auth)));
        }
        if self.plugin().is_some() {
            return None;
        }
        let found = self.read();
        Some(self.settle(state, found))
    }

    /// The server has answered 401 to `auth`.
    pub(super) fn refused(&self, auth: &Arc<AuthInfo>) {
        if let Some(known) = self.lock().known.as_mut().filter(|known| Arc::ptr_eq(&known.auth, auth)) {
            known.refused = true;
        }
    }

    /// The plugin, if it applies: as in client-go, other credentials take precedence.
    fn plugin(&self) -> Option<&ExecConfig> {
        let AuthInfo { token, token_file, username, auth_provider, .. } = &self.auth;
        let AuthInfo { client_certificate, client_certificate_data, .. } = &self.auth;
        let others = token.is_some() || token_file.is_some() || username.is_some() || auth_provider.is_some();
        let certificate = client_certificate.is_some() || client_certificate_data.is_some();
        self.auth.exec.as_ref().filter(|_| !others && !certificate)
    }

    fn is_due(&self, known: &Known) -> bool {
        let age = known.found_at.elapsed();
        let files = self.auth.client_certificate.is_some() || self.auth.token_file.is_some();
        let reads = self.plugin().is_none() && files;
        (known.refused && age >= SETTLED)
            || known.secrets.expires.is_some_and(|expires| expires <= self.clock.now())
            || (reads && age >= RELOAD)
    }

    /// Runs the plugin in a task of its own, since the request that needs it may be cancelled.
    fn find(self: &Arc<Self>) -> Finding {
        let this = Arc::clone(self);
        let running = self.plugin().cloned().map(|plugin| (self.run)(plugin));
        let task = tokio::spawn(async move {
            let found = match running {
                Some(running) => running.await,
                None => this.read(),
            };
            let mut state = this.lock();
            state.finding = None;
            this.settle(&mut state, found)
        });
        let this = Arc::clone(self);
        async move {
            task.await.unwrap_or_else(|error| {
                this.lock().finding = None;
                Err(CredentialsError(error.to_string()))
            })
        }
        .boxed()
        .shared()
    }

    /// Reads the files that are named: of certificate and key where they are not given inline, and of a token, which goes
    /// before one that is.
    fn read(&self) -> Result<Secrets, CredentialsError> {
        let AuthInfo { client_certificate, client_certificate_data, client_key, client_key_data, .. } = &self.auth;
        let bytes = |path: &str| {
            std::fs::read(Path::new(path)).map_err(|error| CredentialsError(format!("{path} cannot be read: {error}")))
        };
        let mut secrets = Secrets::default();
        if let Some(path) = &self.auth.token_file {
            let found = token(&bytes(path)?).ok_or_else(|| CredentialsError(format!("{path} has no token")))?;
            secrets.token = Some(found);
        }
        if let (Some(certificate), Some(key), None, None) =
            (client_certificate, client_key, client_certificate_data, client_key_data)
        {
            secrets.certificate = Some((bytes(certificate)?, bytes(key)?));
        }
        Ok(secrets)
    }

    /// Takes the result. If it is a failure, earlier credentials are kept while they are valid.
    fn settle(
        &self,
        state: &mut State,
        found: Result<Secrets, CredentialsError>,
    ) -> Result<Arc<AuthInfo>, CredentialsError> {
        let now = self.clock.now();
        let found = found.and_then(|secrets| match secrets.token.as_deref().is_none_or(can_be_sent) {
            true => Ok(secrets),
            false => Err(unsendable()),
        });
        let secrets = match (found, &mut state.known) {
            (Err(error), Some(known)) if known.secrets.expires.is_none_or(|expires| expires > now) => {
                tracing::warn!(%error, "credentials could not be renewed");
                known.found_at = Instant::now();
                return Ok(Arc::clone(&known.auth));
            }
            (Ok(secrets), Some(known)) if secrets == known.secrets && !known.refused => {
                known.found_at = Instant::now();
                return Ok(Arc::clone(&known.auth));
            }
            (Err(error), None) if self.auth.token_file.is_some() && self.auth.token.is_some() => {
                tracing::warn!(%error, "the token that is given inline is used meanwhile");
                Secrets::default()
            }
            (found, _) => found?,
        };
        let mut auth = self.auth.clone();
        (auth.exec, auth.token_file) = (None, None);
        if let Some(token) = &secrets.token {
            auth.token = Some(token.clone().into());
        }
        if !auth.token.as_ref().is_none_or(|token| can_be_sent(token.expose_secret())) {
            return Err(unsendable());
        }
        if let Some((certificate, key)) = &secrets.certificate {
            auth.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
            auth.client_key_data = Some(BASE64_STANDARD.encode(key).into());
        }
        let auth = Arc::new(auth);
        state.known = Some(Known { secrets, auth: Arc::clone(&auth), found_at: Instant::now(), refused: false });
        Ok(auth)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a header can carry a token. It is not quoted where none can.
fn can_be_sent(token: &str) -> bool {
    HeaderValue::try_from(token).is_ok()
}

fn unsendable() -> CredentialsError {
    CredentialsError("the token has a character that no header can carry, such as the end of a line".to_owned())
}

/// What a file has for a token, as client-go reads it: without white space around it, and not empty.
fn token(text: &[u8]) -> Option<String> {
    let token = std::str::from_utf8(text).ok()?.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
