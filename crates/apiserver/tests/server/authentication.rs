//! Who asks, by certificates, by the tokens of service accounts and by those of a file.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use muster_apiserver::certificates::Authority;
use muster_apiserver::serve::serve;
use muster_apiserver::tls::Tls;
use muster_apiserver::{ApiServer, Options};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Answer, Server, options, start, start_with};

const CORE: &str = "/api/v1/namespaces/default";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A request for a certificate becomes a credential: created, approved, signed by the cluster's authority, shown.
///
/// Contract: API-01, API-32
#[tokio::test]
async fn a_certificate_that_was_asked_for_and_approved_is_a_credential() {
    let server = start_with(Options { clock: muster_apiserver::clock::Clock::system(), ..options() });
    let authority = Authority::generate().expect("an authority");
    let (request, key) = request("alice", "devs");
    let usages = ["client auth", "digital signature"];
    let object = json!({
        "metadata": {"name": "alice"},
        "spec": {
            "request": STANDARD.encode(&request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": usages,
        },
    });
    assert_eq!(server.post(REQUESTS, &object).await.status, 201);
    let conditions = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "test"}]});
    let approved = server.merge(&format!("{REQUESTS}/alice/approval"), &json!({"status": conditions})).await;
    assert_eq!(approved.status, 200, "{}", approved.json());
    let now = server.api.registry().clock.now();
    let (from, until) = (now - Duration::from_secs(300), now + Duration::from_secs(3600));
    let signed = authority.sign(&request, &usages, from, until).expect("a certificate");
    let status = json!({"status": {"certificate": STANDARD.encode(&signed)}});
    assert_eq!(server.merge(&format!("{REQUESTS}/alice/status"), &status).await.status, 200);
    let stored = server.get(&format!("{REQUESTS}/alice")).await.json();
    let certificate = STANDARD.decode(stored["status"]["certificate"].as_str().expect("a certificate"));
    let certificate = String::from_utf8(certificate.expect("base64")).expect("PEM");

    let https = Https::listen(&server.api, &authority).await;
    let alice = https.who(Some((&certificate, &key)), None).await;
    assert_eq!(alice.status, 201, "{}", alice.json());
    let mut info = alice.json()["status"]["userInfo"].clone();
    let id = info["extra"]["authentication.kubernetes.io/credential-id"][0].take();
    assert!(id.as_str().is_some_and(|id| id.starts_with("X509SHA256=") && id.len() == 75), "{id}");
    let groups = ["devs", "system:authenticated"];
    let extra = json!({"authentication.kubernetes.io/credential-id": [null]});
    assert_eq!(info, json!({"username": "alice", "groups": groups, "extra": extra}));

    // The certificate is looked at before the token is.
    let both = https.who(Some((&certificate, &key)), Some("wrong")).await;
    assert_eq!(both.json()["status"]["userInfo"]["username"], "alice");
    let none = https.who(None, None).await;
    assert_eq!(none.status, 403, "whoever has none is anonymous: {}", none.json());
}

/// Contract: API-01, API-32
#[tokio::test]
async fn a_certificate_that_is_no_credential_is_401_unless_a_token_is_one() {
    let server = start_with(Options { clock: muster_apiserver::clock::Clock::system(), ..options() });
    let (authority, other) = (Authority::generate().expect("one"), Authority::generate().expect("another"));
    let https = Https::listen(&server.api, &authority).await;
    let (request, key) = request("alice", "system:masters");
    let now = server.api.registry().clock.now();
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    let client = ["client auth"];
    for (what, authority, usages, from, until) in [
        ("of another authority", &other, client, now - hour, now + hour),
        ("expired", &authority, client, now - day, now - hour),
        ("not good yet", &authority, client, now + hour, now + day),
        ("of a server", &authority, ["server auth"], now - hour, now + hour),
    ] {
        let certificate = authority.sign(&request, &usages, from, until).expect("a certificate");
        let shown = Some((&*certificate, &*key));
        assert_eq!(https.who(shown, None).await.status, 401, "{what}");
        assert_eq!(https.who(shown, Some("wrong")).await.status, 401, "{what}");
        let by_token = https.who(shown, Some(server.api.token())).await;
        assert_eq!(by_token.json()["status"]["userInfo"]["username"], "admin", "{what}");
    }
    // `openssl x509 -req` makes such ones by itself.
    let version_1 = Some((include_str!("../keys/version1.crt"), include_str!("../keys/version1.key")));
    assert_eq!(https.who(version_1, None).await.status, 401);
    assert_eq!(https.who(version_1, Some(server.api.token())).await.status, 201);
}

/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_as_long_as_its_account_and_what_it_is_bound_to_are_there() {
    let server = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}],
        "nodeName": "n", "terminationGracePeriodSeconds": 0,
    }});
    let node = json!({"metadata": {"name": "n"}});
    let secret = json!({"metadata": {"name": "s"}});
    let account = json!({"metadata": {"name": "robot"}});
    for (plural, object) in [("serviceaccounts", &account), ("secrets", &secret), ("pods", &pod)] {
        if plural == "pods" {
            assert_eq!(server.post("/api/v1/nodes", &node).await.status, 201);
        }
        let made = server.post(&format!("{CORE}/{plural}"), object).await;
        assert_eq!(made.status, 201, "{}", made.json());
    }
    let bound =
        |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    for (spec, path, again) in [
        (bound("Pod", "p"), format!("{CORE}/pods/p"), &pod),
        (bound("Secret", "s"), format!("{CORE}/secrets/s"), &secret),
        (bound("Node", "n"), "/api/v1/nodes/n".to_owned(), &node),
        (json!({}), format!("{CORE}/serviceaccounts/robot"), &account),
    ] {
        let token = token(&server, &spec).await;
        assert_eq!(with(&server, &token).await, 201, "{path}");
        let force = json!({"gracePeriodSeconds": 0});
        assert_eq!(server.delete(&path, Some(&force)).await.status, 200, "{path}");
        assert_eq!(with(&server, &token).await, 401, "{path} is gone");
        let collection = path.rsplit_once('/').expect("a collection").0;
        let made = server.post(collection, again).await;
        assert_eq!(made.status, 201, "{}", made.json());
        assert_eq!(with(&server, &token).await, 401, "{path} is another one");
    }
}

/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn a_token_expires_and_is_for_its_audiences_and_its_server_only() {
    let server = start();
    assert_eq!(
        server.post(&format!("{CORE}/serviceaccounts"), &json!({"metadata": {"name": "robot"}})).await.status,
        201
    );
    let short = token(&server, &json!({"spec": {"expirationSeconds": 600}})).await;
    let long = token(&server, &json!({"spec": {"expirationSeconds": 3600}})).await;
    let elsewhere = token(&server, &json!({"spec": {"audiences": ["vault", "store"]}})).await;
    assert_eq!(with(&server, &elsewhere).await, 401);
    for (token, wanted, good) in [
        (&elsewhere, json!(["store", "other", "vault"]), json!(["store", "vault"])),
        (&elsewhere, json!(["other"]), Value::Null),
        (&elsewhere, json!([]), Value::Null),
        (&short, json!([]), json!(["https://kubernetes.default.svc"])),
    ] {
        let review = json!({"spec": {"token": token, "audiences": wanted}});
        let review = server.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.json();
        assert_eq!(review["status"]["audiences"], good, "{review}");
        assert_eq!(review["status"]["authenticated"].as_bool().unwrap_or_default(), !good.is_null(), "{review}");
    }

    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let made = server.post(&format!("{CORE}/serviceaccounts/robot/token"), &labelled).await.json();
    let written = &made["metadata"]["managedFields"][0];
    assert_eq!(written["subresource"], "token");
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:expirationSeconds": {}}});
    assert_eq!(written["fieldsV1"], fields);

    // Clocks may differ by a minute.
    tokio::time::advance(Duration::from_secs(655)).await;
    assert_eq!(with(&server, &short).await, 201);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!((with(&server, &short).await, with(&server, &long).await), (401, 201));

    let (first, _) = long.rsplit_once('.').expect("a signature");
    let (_, last) = short.rsplit_once('.').expect("a signature");
    assert_eq!(with(&server, &format!("{first}.{last}")).await, 401, "signed for another token");
    let same = start();
    assert_eq!(
        same.post(&format!("{CORE}/serviceaccounts"), &json!({"metadata": {"name": "robot"}})).await.status,
        201
    );
    assert_eq!(with(&same, &long).await, 401, "a server has a key of its own");
}

/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn a_token_of_a_secret_that_is_marked_invalid_is_refused() {
    let server = start();
    let account = server.post(&format!("{CORE}/serviceaccounts"), &json!({"metadata": {"name": "robot"}})).await.json();
    let uid = account["metadata"]["uid"].as_str().expect("a uid");
    let token = server.api.token_for_secret("default", ("robot", uid), "kept").expect("a token");
    let annotations = json!({"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": uid});
    let secret = json!({
        "metadata": {"name": "kept", "annotations": annotations},
        "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(&token)},
    });
    let made = server.post(&format!("{CORE}/secrets"), &secret).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let label = "kubernetes.io/legacy-token-invalid-since";
    for (value, expected) in
        [(json!("2027-01-15"), 401), (json!(""), 201), (json!("2027-01-15"), 401), (json!(null), 201)]
    {
        let labelled = json!({"metadata": {"labels": {label: value}}});
        assert_eq!(server.merge(&format!("{CORE}/secrets/kept"), &labelled).await.status, 200);
        assert_eq!(with(&server, &token).await, expected, "{value}");
        let review = json!({"spec": {"token": token}});
        let review = server.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.json();
        let why = "the token in secret default/kept for service account default/robot has been marked invalid";
        let said = review["status"]["error"].as_str().unwrap_or_default().contains(why);
        assert_eq!(said, expected == 401, "{review}");
    }
}

/// The request of a user, PEM, and its key.
fn request(name: &str, organization: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, name);
    let request = params.serialize_request(&key).expect("a request");
    (request.pem().expect("PEM"), key.serialize_pem())
}

/// A token of the service account `robot`.
async fn token(server: &Server, request: &Value) -> String {
    let answer = server.post(&format!("{CORE}/serviceaccounts/robot/token"), request).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()["status"]["token"].as_str().expect("a token").to_owned()
}

/// What whoever has that token is answered who asks for the own name.
async fn with(server: &Server, token: &str) -> u16 {
    let headers = [("Authorization", &*format!("Bearer {token}")), ("Content-Type", "application/json")];
    server.send("POST", MYSELF, &headers, "{}").await.status
}

/// A server that is reached by HTTPS.
struct Https {
    address: std::net::SocketAddr,
    trusted: RootCertStore,
    _handle: muster_apiserver::serve::Handle,
}

impl Https {
    async fn listen(api: &ApiServer, authority: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let tls = Tls::signed_by(authority, &[IpAddr::V4(Ipv4Addr::LOCALHOST)]).expect("certificates");
        let handle = serve(listener, api, Some(&tls)).expect("a server");
        let mut trusted = RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(tls.ca_pem().as_bytes()).expect("PEM")).expect("an authority");
        Self { address: handle.address(), trusted, _handle: handle }
    }

    /// What whoever has these credentials is answered who asks for the own name.
    async fn who(&self, certificate: Option<(&str, &str)>, token: Option<&str>) -> Answer {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_root_certificates(self.trusted.clone());
        let config = match certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                let key = provider.key_provider.load_private_key(key).expect("a key");
                // Not looked at here: the server has to.
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))))
            }
        };
        let stream = TcpStream::connect(self.address).await.expect("the server accepts");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.expect("TLS");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let mut request =
            http::Request::post(MYSELF).header("Host", "localhost").header("Content-Type", "application/json");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::from("{}")).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}
