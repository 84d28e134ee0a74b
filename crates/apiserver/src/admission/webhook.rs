//! A configured webhook, and what it says of a write.

use std::time::Duration;

use muster_tree::Value;
use tokio::time::Instant;

use super::attributes::{Attributes, Seen};
use super::conditions::{Conditions, Verdict};
use super::expression::{Inputs, Values};
use super::matching::Constraints;
use super::review::{self, Response, Version};
use super::written::{Shown, View};
use crate::cel::Authorizer;
use crate::field::go_quote;
use crate::model::{Fields as _, Object, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::storage::Entry;
use crate::webhook::{CallError, Client};

/// A webhook of a configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    /// The configuration's name, and the version that it was read at.
    configuration: (String, u64),
    /// The webhook's name.
    pub(super) name: String,
    /// Which it is, among all webhooks.
    pub(super) id: String,
    constraints: Constraints,
    conditions: Conditions,
    /// Whether a failure to call it refuses the write.
    fails: bool,
    /// Whether it may be called where nothing is to be stored.
    harmless: bool,
    /// Whether it is called again when another has changed the object after it.
    pub(super) is_reinvoked: bool,
    timeout: Duration,
    version: Option<Version>,
    client: Client,
}

/// What came of asking a webhook.
#[derive(Debug)]
pub(super) struct Heard {
    warnings: Vec<String>,
    /// `None` where it could not be asked and that does not matter.
    response: Result<Option<Response>, ApiError>,
}

impl Heard {
    /// Its answer; the client is warned of what it warns of, whether it allows the write or not.
    ///
    /// # Errors
    /// What it has against the write; 500 where it could not be asked.
    pub(super) fn heard(self, warnings: &mut Vec<String>) -> Result<Option<Response>, ApiError> {
        warnings.extend(self.warnings);
        self.response
    }
}

impl Webhook {
    /// The webhooks of a configuration.
    pub(super) fn all(entry: &Entry) -> Vec<Self> {
        let configuration = entry.object();
        let name = metadata(&configuration).text("name");
        let mut names: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        for hook in configuration.items("webhooks") {
            let own = hook.text("name");
            let before = names.iter().filter(|known| **known == own).count();
            names.push(own);
            all.push(Self::new((name.to_owned(), entry.version), hook, before));
        }
        all
    }

    fn new(configuration: (String, u64), hook: &Object, before: usize) -> Self {
        let name = hook.text("name").to_owned();
        let empty = Object::new();
        Self {
            id: format!("{}/{name}/{before}", configuration.0),
            configuration,
            name,
            constraints: Constraints::of_webhook(hook),
            conditions: Conditions::new(hook, false),
            fails: hook.text("failurePolicy") != "Ignore",
            harmless: matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun"),
            is_reinvoked: hook.text("reinvocationPolicy") == "IfNeeded",
            timeout: Duration::from_secs(hook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10)),
            version: hook.strings("admissionReviewVersions").find_map(Version::named),
            client: Client::new(hook.object("clientConfig").unwrap_or(&empty)),
        }
    }

    /// Whether it was read from this configuration, as it is now.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        self.configuration.1 == entry.version && self.configuration.0 == *entry.name
    }

    /// As what a write is seen, where the webhook is to be called for it.
    ///
    /// # Errors
    /// 403 for a match condition that failed, and those of [`Constraints::matches`].
    pub(super) fn is_meant(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        view: &mut View<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<Option<Seen>, ApiError> {
        let failed = |why: String| ApiError::internal(&why);
        let (object, old) = view.latest(&attributes.seen).map_err(failed)?;
        let found = self.constraints.matches(registry, attributes, object, old)?;
        let Some(seen) = found else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(seen));
        }
        let (object, old) = view.of(&seen).map_err(failed)?;
        let inputs = Inputs::new(registry, attributes, &seen, object, old);
        let values = Values::new(&inputs, None, Some(authorizer), &[]);
        match self.conditions.verdict(&values, self.fails) {
            Verdict::Met => Ok(Some(seen)),
            Verdict::Unmet => Ok(None),
            Verdict::Failed(why) => Err(ApiError::forbidden(attributes.group_resource(), &attributes.name, &why)),
        }
    }

    /// Asks it about a write.
    pub(super) async fn ask(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        seen: &Seen,
        shown: Shown<'_>,
        mutates: bool,
        deadline: Instant,
    ) -> Heard {
        if attributes.dry_run && !self.harmless {
            let why = format!("admission webhook {} does not support dry run", go_quote(&self.name));
            return Heard { warnings: Vec::new(), response: Err(ApiError::bad_request(why)) };
        }
        match self.exchange(registry, attributes, seen, shown, mutates, deadline).await {
            Ok(mut response) => {
                let warnings = std::mem::take(&mut response.warnings);
                let denied = (!response.allowed).then(|| review::denied(&self.name, response.result.as_ref()));
                Heard { warnings, response: denied.map_or(Ok(Some(response)), Err) }
            }
            Err(why) => Heard { warnings: Vec::new(), response: self.failed(&why, deadline).map(|()| None) },
        }
    }

    async fn exchange(
        &self,
        registry: &Registry,
        attributes: &Attributes<'_>,
        seen: &Seen,
        (object, old): Shown<'_>,
        mutates: bool,
        deadline: Instant,
    ) -> Result<Response, String> {
        let version = self.version.ok_or_else(|| {
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned()
        })?;
        let uid = registry.generator.uid();
        let body = review::request(version, &uid, attributes, seen, object, old);
        let until = deadline.min(Instant::now() + self.timeout);
        let answer = self.client.post(registry, body, until).await.map_err(|error| match error {
            CallError::Configuration(_) => error.to_string(),
            CallError::Call(why) => format!("failed to call webhook: {why}"),
        })?;
        review::read(&answer, version, &uid, mutates)
    }

    /// What becomes of a write where the webhook failed: nothing, where that is to be ignored.
    ///
    /// # Errors
    /// 500; 504 where there is no time left for others.
    pub(super) fn failed(&self, why: &str, deadline: Instant) -> Result<(), ApiError> {
        let message = format!("failed calling webhook {}: {why}", go_quote(&self.name));
        if self.fails {
            return Err(ApiError::internal(&message));
        }
        tracing::warn!(
            webhook = self.name,
            configuration = self.configuration.0,
            why,
            "ignoring a webhook that failed"
        );
        if Instant::now() >= deadline {
            return Err(ApiError::timeout("request did not complete within requested timeout"));
        }
        Ok(())
    }
}
