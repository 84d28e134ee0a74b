//! Tokens that are kept in Secrets: written into the Secrets that ask for one, which go with their accounts (API-32).
//!
//! It is the `serviceaccount-token-controller` of kube-controller-manager. The token itself is the server's to make.

use std::fmt::Debug;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use muster_apiserver::ApiServer;
use muster_machinery::Change;
use muster_objects::{ObjectKey, Uid};
use muster_runtime::client::{Client, PatchType};
use muster_runtime::informer::{Store, WatchedResource};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::control::{Again, Body, ByNamespace, Control, Frame, Slim, Trouble, Writes};
use crate::json::or_default;

/// How many Secrets are synced at once.
const WORKERS: usize = 5;
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Who makes the tokens that are kept in Secrets.
pub trait Tokens: Debug + Send + Sync {
    /// A token of an account, by name and uid, for a Secret of that name; none where there is no randomness.
    fn for_secret(&self, namespace: &str, account: (&str, &str), secret: &str) -> Option<String>;
}

impl Tokens for ApiServer {
    fn for_secret(&self, namespace: &str, account: (&str, &str), secret: &str) -> Option<String> {
        self.token_for_secret(namespace, account, secret)
    }
}

fn secrets() -> WatchedResource {
    let field_selector = "type=kubernetes.io/service-account-token".to_owned();
    WatchedResource { field_selector, ..WatchedResource::new("", "v1", "secrets") }
}

fn accounts() -> WatchedResource {
    WatchedResource::new("", "v1", "serviceaccounts")
}

/// Sets up the `serviceaccount-token-controller`, where anybody makes tokens.
pub(crate) fn keep_tokens(frame: &mut Frame<'_>) {
    let Some(tokens) = frame.tokens.clone() else { return };
    if !frame.serves(&secrets()) || !frame.serves(&accounts()) {
        return;
    }
    let (client, ca) = (frame.client.clone(), frame.ca.clone().map(|ca| STANDARD.encode(ca)));
    let mut setup = frame.controller("serviceaccount_tokens_secret");
    let store = setup.watch::<Slim<Kept>>(&secrets(), |change, queue| {
        if let Change::Deleted { last, .. } = change {
            queue.add([gone(last)]);
        } else {
            queue.add([change.object().meta.key()]);
        }
    });
    let (seen, queue) = (store.clone(), setup.queue.clone());
    setup.everything(move |kind, batch| {
        if (&*kind.api_version, &*kind.kind) != ("v1", "ServiceAccount") {
            return;
        }
        for change in batch.iter().filter(|change| !matches!(change, Change::Updated { .. })) {
            let account = &change.object().meta;
            let seen = seen.read();
            let kept = ByNamespace::of(&seen, &account.namespace);
            let keys = kept.filter(|kept| *kept.body.account.name == *account.name).map(|kept| kept.meta.key());
            queue.add(keys.collect::<Vec<_>>());
        }
    });
    setup.run(WORKERS, TokenControl { client, tokens, ca, secrets: store });
}

/// The key of a Secret that is gone: its name, and after a slash, which no name has, that of its account.
fn gone(secret: &Slim<Kept>) -> ObjectKey {
    let name = format!("{}/{}", secret.meta.name, secret.body.account.name);
    ObjectKey::new(Arc::clone(&secret.meta.namespace), name)
}

/// A Secret that is to hold a token.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Wire")]
struct Kept {
    account: Named,
    /// The certificate authority in it, as it stands there.
    ca: Option<Box<str>>,
    namespace: bool,
    token: bool,
}

/// A name and perhaps a uid.
#[derive(Debug, Clone, Default, PartialEq)]
struct Named {
    name: Box<str>,
    uid: Box<str>,
}

impl Body for Kept {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Secret";
    type Indexes = ByNamespace;
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    data: Map<String, Value>,
}

#[derive(Deserialize)]
struct WireMeta {
    #[serde(default, deserialize_with = "or_default")]
    annotations: Map<String, Value>,
}

impl From<Wire> for Kept {
    fn from(Wire { metadata, data }: Wire) -> Self {
        let text = |map: &Map<String, Value>, key| map.get(key).and_then(Value::as_str).map(Box::<str>::from);
        let annotation = |key| text(&metadata.annotations, key).unwrap_or_default();
        let has = |key| text(&data, key).is_some_and(|value| !value.is_empty());
        Self {
            account: Named { name: annotation(ACCOUNT_NAME), uid: annotation(ACCOUNT_UID) },
            ca: text(&data, "ca.crt"),
            namespace: has("namespace"),
            token: has("token"),
        }
    }
}

/// An account, as far as it is read.
#[derive(Deserialize)]
struct Account {
    metadata: AccountMeta,
    #[serde(default, deserialize_with = "or_default")]
    secrets: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountMeta {
    uid: Uid,
    resource_version: String,
}

/// What is to be done about a Secret.
#[derive(Debug, PartialEq)]
enum Decision {
    Nothing,
    /// Its account is gone.
    Delete,
    /// It gets these data, and says whose it is.
    Write(Map<String, Value>),
}

fn decide(
    secret: &Slim<Kept>,
    account: Option<&Uid>,
    ca: Option<&str>,
    token: impl FnOnce(&str) -> Option<String>,
) -> Result<Decision, String> {
    let Kept { account: named, .. } = &secret.body;
    if named.name.is_empty() {
        return Ok(Decision::Nothing);
    }
    let Some(uid) = account.map(ToString::to_string).filter(|uid| named.uid.is_empty() || **uid == *named.uid) else {
        return Ok(Decision::Delete);
    };
    let mut data = Map::new();
    if let Some(ca) = ca.filter(|ca| secret.body.ca.as_deref() != Some(ca)) {
        data.insert("ca.crt".to_owned(), ca.into());
    }
    if !secret.body.namespace {
        data.insert("namespace".to_owned(), STANDARD.encode(&*secret.meta.namespace).into());
    }
    if !secret.body.token {
        let token = token(&uid).ok_or("no token can be made")?;
        data.insert("token".to_owned(), STANDARD.encode(token).into());
    }
    Ok(if data.is_empty() { Decision::Nothing } else { Decision::Write(data) })
}

struct TokenControl {
    client: Client,
    tokens: Arc<dyn Tokens>,
    /// In base64.
    ca: Option<String>,
    secrets: Store<Slim<Kept>>,
}

impl Control for TokenControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            if let Some((secret, account)) = key.name.split_once('/') {
                return self.unlist(&key.namespace, account, secret).await;
            }
            let Some(secret) = self.secrets.read().get(key).cloned() else { return Ok(Again::Never) };
            let name = &secret.body.account.name;
            let account = self.account(&key.namespace, name).await?.map(|account| account.metadata.uid);
            let token = |uid: &str| self.tokens.for_secret(&key.namespace, (name, uid), &key.name);
            let decision = decide(&secret, account.as_ref(), self.ca.as_deref(), token).map_err(Trouble::Objects)?;
            let path = secrets().object(Some(&key.namespace), &key.name);
            let writes = Writes { client: &self.client, store: &self.secrets };
            match decision {
                Decision::Nothing => {}
                Decision::Delete => writes.delete(&path, &secret.meta.uid).await?,
                Decision::Write(data) => {
                    let annotations = json!({ACCOUNT_NAME: name, ACCOUNT_UID: account});
                    let version = secret.meta.resource_version.to_string();
                    let metadata =
                        json!({"uid": secret.meta.uid, "resourceVersion": version, "annotations": annotations});
                    writes.merge(&path, &json!({"metadata": metadata, "data": data})).await?;
                }
            }
            Ok(Again::Never)
        })
    }
}

impl TokenControl {
    async fn account(&self, namespace: &str, name: &str) -> Result<Option<Account>, Trouble> {
        if name.is_empty() {
            return Ok(None);
        }
        match self.client.get(&accounts().object(Some(namespace), name)).await {
            Ok(answer) => {
                let account = serde_json::from_slice(&answer.body);
                account.map(Some).map_err(|error| Trouble::Objects(error.to_string()))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a Secret that is gone off the list of its account.
    async fn unlist(&self, namespace: &str, name: &str, secret: &str) -> Result<Again, Trouble> {
        let Some(mut account) = self.account(namespace, name).await? else { return Ok(Again::Never) };
        let before = account.secrets.len();
        account.secrets.retain(|listed| listed["name"] != secret);
        if account.secrets.len() < before {
            let metadata = json!({"uid": account.metadata.uid, "resourceVersion": account.metadata.resource_version});
            let patch = json!({"metadata": metadata, "secrets": account.secrets}).to_string();
            let path = accounts().object(Some(namespace), name);
            self.client.patch_metadata(&path, PatchType::Merge, patch.into()).await?;
        }
        Ok(Again::Never)
    }
}

#[cfg(test)]
mod tests {
    use muster_objects::{Interner, Object as _};

    use super::*;

    /// Contract: API-32
    #[test]
    fn a_secret_gets_what_it_lacks_and_goes_with_its_account() {
        let decide = |account: &str, uid: &str, data: Value, present: Option<&str>| {
            let annotations = json!({ACCOUNT_NAME: account, ACCOUNT_UID: uid});
            let metadata = json!({"name": "s", "namespace": "n", "uid": "1", "annotations": annotations});
            let secret = json!({"metadata": metadata, "data": data}).to_string();
            let secret = Slim::<Kept>::decode(secret.as_bytes(), &mut Interner::new()).expect("a Secret");
            let present = present.map(Uid::new);
            super::decide(&secret, present.as_ref(), Some("Y2E="), |uid| Some(format!("of {uid}")))
        };
        let write = |data: Value| Decision::Write(data.as_object().cloned().expect("an object"));
        let whole = json!({"ca.crt": "Y2E=", "namespace": "bg==", "token": "dA=="});
        let cases = [
            (decide("", "", json!({}), None), Decision::Nothing),
            (decide("a", "", json!({}), None), Decision::Delete),
            (decide("a", "u", json!({}), Some("v")), Decision::Delete),
            (
                decide("a", "", json!({}), Some("u")),
                write(json!({"ca.crt": "Y2E=", "namespace": "bg==", "token": STANDARD.encode("of u")})),
            ),
            (decide("a", "u", whole.clone(), Some("u")), Decision::Nothing),
            (
                decide("a", "u", json!({"ca.crt": "b2xk", "namespace": "bg==", "token": "dA=="}), Some("u")),
                write(json!({"ca.crt": "Y2E="})),
            ),
        ];
        for (at, (decided, expected)) in cases.into_iter().enumerate() {
            assert_eq!(decided, Ok(expected), "case {at}");
        }
    }
}
