//! Tokens of service accounts: issued for an account, perhaps bound to an object, and accepted for as long as all of that
//! is there (API-32).

pub mod jwt;
pub mod keys;
pub mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::{CREDENTIAL_ID, NODE_NAME, SERVICE_ACCOUNT, User, service_account};
use crate::field::go_quote;
use crate::model::{Fields as _, Object, metadata};
use jwt::Refused;
use keys::{PublicKey, SigningKey};

/// Who signs the tokens where nobody says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Who signed the tokens that are kept in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a Secret whose token is not to be accepted any more, since the date that it tells.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// Clocks may differ by this many seconds.
const LEEWAY: i64 = 60;

/// Where accounts, and the objects that tokens are bound to, are looked up.
pub trait Objects {
    /// An object of the core group, by its plural name, namespace and name.
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Object>;
}

/// Somebody who was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised {
    /// Who.
    pub user: Arc<User>,
    /// For which of the audiences that were asked for the credential is good.
    pub audiences: Vec<String>,
}

/// How tokens are issued and accepted.
#[derive(Debug)]
pub struct Options {
    /// What signs them; a new key where there is none.
    pub signing: Option<SigningKey>,
    /// Keys that are accepted besides that one.
    pub accepted: Vec<PublicKey>,
    /// Who issues them, and whose are accepted besides.
    pub issuers: (String, Vec<String>),
    /// For whom they are where a request does not say; the issuers where this is empty.
    pub audiences: Vec<String>,
    /// Where the keys are told, in place of a page of this server.
    pub keys_uri: Option<String>,
    /// The longest that one is good for, in seconds.
    pub longest: Option<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            signing: None,
            accepted: Vec::new(),
            issuers: (ISSUER.to_owned(), Vec::new()),
            audiences: Vec::new(),
            keys_uri: None,
            longest: None,
        }
    }
}

/// Issues and accepts tokens.
#[derive(Debug, Default)]
pub struct Issuer {
    /// Made when it is first needed, where none was given. `None` where the system gives no randomness.
    key: OnceLock<Option<SigningKey>>,
    options: Options,
}

/// What a token is bound to.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// A pod, by name and uid.
    pub pod: Option<(String, String)>,
    /// A Secret.
    pub secret: Option<(String, String)>,
    /// A node; of a pod's token, the pod's.
    pub node: Option<(String, String)>,
}

/// What a token says.
#[derive(Debug)]
pub struct Claims<'a> {
    /// The account's namespace.
    pub namespace: &'a str,
    /// The account's name and uid.
    pub account: (&'a str, &'a str),
    /// What it is bound to.
    pub bound: &'a Bound,
    /// For whom it is.
    pub audiences: &'a [String],
    /// For how many seconds it is good.
    pub seconds: i64,
    /// After how many seconds its use is stale.
    pub stale_after: Option<i64>,
}

impl Issuer {
    /// An issuer.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        let key = options.signing.take().map_or_else(OnceLock::new, |key| OnceLock::from(Some(key)));
        if options.audiences.is_empty() {
            let (own, others) = &options.issuers;
            options.audiences = [own].into_iter().chain(others).cloned().collect();
        }
        Self { key, options }
    }

    /// For whom a token has to be that is meant for the server.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.options.audiences
    }

    /// For how many of so many seconds a token may be good.
    #[must_use]
    pub fn at_most(&self, seconds: i64) -> i64 {
        self.options.longest.map_or(seconds, |longest| seconds.min(longest))
    }

    /// Issues a token of a unique id; `None` when the system has no randomness.
    #[must_use]
    pub fn issue(&self, claims: &Claims<'_>, id: &str, now: Timestamp) -> Option<String> {
        let now = now.as_nanos() / 1_000_000_000;
        let named = |(name, uid): &(String, String)| json!({"name": name, "uid": uid});
        let Claims { namespace, account: (name, uid), bound, audiences, seconds, stale_after } = claims;
        let mut own = Object::new();
        own.insert("namespace", json!(namespace));
        own.insert("serviceaccount", json!({"name": name, "uid": uid}));
        for (key, bound) in [("pod", &bound.pod), ("secret", &bound.secret), ("node", &bound.node)] {
            if let Some(bound) = bound {
                own.insert(key, named(bound));
            }
        }
        if let Some(seconds) = stale_after {
            own.insert("warnafter", json!(now + seconds));
        }
        let subject = format!("{SERVICE_ACCOUNT}{namespace}:{name}");
        let Value::Object(claims) = json!({
            "aud": audiences, "exp": now.saturating_add(*seconds), "iat": now, "iss": self.options.issuers.0, "jti": id, "nbf": now,
            "sub": subject, "kubernetes.io": own,
        }) else {
            return None;
        };
        jwt::sign(self.key()?, &claims)
    }

    /// A token that does not expire, to be kept in a Secret.
    #[must_use]
    pub fn issue_for_secret(&self, namespace: &str, account: (&str, &str), secret: &str) -> Option<String> {
        let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
        let Value::Object(claims) = json!({
            "iss": LEGACY_ISSUER, "sub": format!("{SERVICE_ACCOUNT}{namespace}:{}", account.0),
            claim("namespace"): namespace, claim("secret.name"): secret,
            claim("service-account.name"): account.0, claim("service-account.uid"): account.1,
        }) else {
            return None;
        };
        jwt::sign(self.key()?, &claims)
    }

    /// Whose token it is; `None` for one that is none of a service account. `audiences` are those that it has to be for
    /// one of.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn recognise(
        &self,
        token: &str,
        audiences: &[String],
        objects: &impl Objects,
        now: Timestamp,
    ) -> Option<Result<Recognised, String>> {
        let claimed = jwt::claims(token)?;
        let (own, others) = &self.options.issuers;
        let legacy = match claimed.text("iss") {
            LEGACY_ISSUER => true,
            issuer if issuer == own || others.iter().any(|other| issuer == other) => false,
            _ => return None,
        };
        let claims = match jwt::verify(self.keys(), token) {
            Ok(claims) => claims,
            Err(Refused::Malformed) => return None,
            Err(Refused::UnknownKey) => return Some(Err("invalid signature, no keys found".to_owned())),
            Err(Refused::Signature) => {
                return Some(Err("go-jose/go-jose: error in cryptographic primitive".to_owned()));
            }
        };
        let own: Vec<String> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one.to_string()],
            Some(Value::Array(_)) => claims.strings("aud").map(str::to_owned).collect(),
            _ => self.options.audiences.clone(),
        };
        let common: Vec<String> = audiences.iter().filter(|audience| own.contains(audience)).cloned().collect();
        if common.is_empty() {
            let quoted = |list: &[String]| super::rbac::rule::quoted(list);
            let why =
                format!("token audiences {} is invalid for the target audiences {}", quoted(&own), quoted(audiences));
            return Some(Err(why));
        }
        let checked = if legacy { check_kept(&claims, token, objects) } else { check(&claims, objects, now) };
        Some(checked.map(|user| Recognised { user: Arc::new(user), audiences: common }))
    }

    /// The configuration of OpenID Connect, for whoever wants to verify tokens; `host` is where the server is reached.
    #[must_use]
    pub fn configuration(&self, host: &str) -> Value {
        let algorithms: BTreeSet<&str> = self.keys().map(PublicKey::algorithm).collect();
        let own = || format!("https://{host}/openid/v1/jwks");
        json!({
            "issuer": self.options.issuers.0, "jwks_uri": self.options.keys_uri.clone().unwrap_or_else(own),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// The keys that sign tokens, for whoever wants to verify one.
    #[must_use]
    pub fn key_set(&self) -> Value {
        json!({"keys": self.keys().filter_map(PublicKey::to_json).collect::<Vec<_>>()})
    }

    /// All that are accepted, each once.
    fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        let own = self.key().map(SigningKey::public);
        own.into_iter().chain(self.options.accepted.iter().filter(move |key| own != Some(key)))
    }

    fn key(&self) -> Option<&SigningKey> {
        self.key.get_or_init(|| SigningKey::generate().ok()).as_ref()
    }
}

/// Checks the times of a token, and that its account and what it is bound to are there.
fn check(claims: &Object, objects: &impl Objects, now: Timestamp) -> Result<User, String> {
    let seconds = now.as_nanos() / 1_000_000_000;
    if claims.maybe_int("nbf").is_some_and(|from| seconds + LEEWAY < from) {
        return Err("service account token is not valid yet".to_owned());
    }
    if claims.maybe_int("exp").is_some_and(|until| seconds - LEEWAY > until) {
        return Err("service account token has expired".to_owned());
    }
    if claims.maybe_int("iat").is_some_and(|at| seconds + LEEWAY < at) {
        return Err("service account token is issued in the future".to_owned());
    }
    let none = Object::new();
    let own = claims.object("kubernetes.io").unwrap_or(&none);
    let namespace = own.text("namespace");
    let account = own.object("serviceaccount").unwrap_or(&none);
    let (name, uid) = (account.text("name"), account.text("uid"));
    let found = objects.find("serviceaccounts", namespace, name);
    let found = found.ok_or_else(|| format!("serviceaccounts {} not found", go_quote(name)))?;
    let present = metadata(&found).text("uid");
    if present != uid {
        return Err(format!("service account UID ({present}) does not match claim ({uid})"));
    }
    if was_deleted(&found, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }

    let mut extra = BTreeMap::new();
    let mut add = |key: &str, value: &str| extra.insert(key.to_owned(), vec![value.to_owned()]);
    let (pod, node) = (own.object("pod"), own.object("node"));
    if let Some(secret) = own.object("secret") {
        still_there(objects, ("secrets", "secret"), namespace, secret, now)?;
    }
    if let Some(pod) = pod {
        still_there(objects, ("pods", "pod"), namespace, pod, now)?;
        add("authentication.kubernetes.io/pod-name", pod.text("name"));
        add("authentication.kubernetes.io/pod-uid", pod.text("uid"));
    }
    if let Some(node) = node {
        // That of a pod is only told: it may be gone before the pod is.
        if pod.is_none() {
            still_there(objects, ("nodes", "node"), "", node, now)?;
        }
        add(NODE_NAME, node.text("name"));
        if !node.text("uid").is_empty() {
            add("authentication.kubernetes.io/node-uid", node.text("uid"));
        }
    }
    if !claims.text("jti").is_empty() {
        add(CREDENTIAL_ID, &format!("JTI={}", claims.text("jti")));
    }
    Ok(User {
        name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: User::groups_of_service_account(namespace),
        extra,
    })
}

/// Checks that what a token is bound to is there.
fn still_there(
    objects: &impl Objects,
    (plural, what): (&str, &str),
    namespace: &str,
    bound: &Object,
    now: Timestamp,
) -> Result<(), String> {
    let invalidated = || "service account token has been invalidated".to_owned();
    let found = objects.find(plural, namespace, bound.text("name")).ok_or_else(invalidated)?;
    let (present, uid) = (metadata(&found).text("uid"), bound.text("uid"));
    if present != uid {
        return Err(format!("{what} UID ({present}) does not match service account {what} ref claim ({uid})"));
    }
    if was_deleted(&found, now) { Err(invalidated()) } else { Ok(()) }
}

/// Whether an object has been on its way out for longer than clocks may differ.
fn was_deleted(object: &Object, now: Timestamp) -> bool {
    let deleted = Timestamp::parse(metadata(object).text("deletionTimestamp"));
    deleted.is_ok_and(|deleted| now.nanos_since(deleted) > LEEWAY * 1_000_000_000)
}

/// Checks a token that is kept in a Secret.
fn check_kept(claims: &Object, token: &str, objects: &impl Objects) -> Result<User, String> {
    let claim = |name: &str| claims.text(&format!("kubernetes.io/serviceaccount/{name}"));
    let (namespace, secret) = (claim("namespace"), claim("secret.name"));
    let (name, uid) = (claim("service-account.name"), claim("service-account.uid"));
    let needed = [
        ("sub", claims.text("sub")),
        ("namespace", namespace),
        ("secretName", secret),
        ("serviceAccountName", name),
        ("serviceAccountUID", uid),
    ];
    if let Some((missing, _)) = needed.iter().find(|(_, value)| value.is_empty()) {
        return Err(format!("{missing} claim is missing"));
    }
    if service_account(claims.text("sub")) != Some((namespace, name)) {
        return Err("sub claim is invalid".to_owned());
    }
    let kept = objects.find("secrets", namespace, secret);
    let kept = kept.filter(|kept| !metadata(kept).contains_key("deletionTimestamp"));
    let kept = kept.ok_or("Token has been invalidated")?;
    let data = kept.object("data").map(|data| data.text("token")).unwrap_or_default();
    if !STANDARD.decode(data).is_ok_and(|data| data == token.as_bytes()) {
        return Err("Token does not match server's copy".to_owned());
    }
    let account = objects.find("serviceaccounts", namespace, name);
    let account = account.ok_or_else(|| format!("serviceaccounts {} not found", go_quote(name)))?;
    if metadata(&account).contains_key("deletionTimestamp") {
        return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
    }
    let present = metadata(&account).text("uid");
    if present != uid {
        return Err(format!("ServiceAccount UID ({present}) does not match claim ({uid})"));
    }
    if metadata(&kept).object("labels").is_some_and(|labels| !labels.text(INVALID_SINCE).is_empty()) {
        return Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{name} has been marked invalid. Use \
             tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label \
             from the secret to temporarily allow use of this token"
        ));
    }
    Ok(User {
        name: claims.text("sub").to_owned(),
        uid: uid.to_owned(),
        groups: User::groups_of_service_account(namespace),
        extra: BTreeMap::new(),
    })
}
