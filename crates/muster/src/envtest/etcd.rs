//! `etcd`, as envtest starts it: it answers whether it is healthy, and stores nothing. The server that is started beside
//! it keeps its objects itself.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use muster_apiserver::serve::{Patience, serve_service};
use muster_apiserver::tls::Tls;
use muster_manager::signals::Signals;
use tokio::sync::watch::Sender;

use super::flags::{Given, Reference};
use super::{files, tell_accepted};

const EXAMPLES: &str = "\
It answers /health, /livez, /readyz and /version on the client URLs and stores nothing: the kube-apiserver beside it keeps its \
objects in memory. Every other flag of etcd v3.6 is accepted and has no effect; which ones were given is told in one line of the \
log.

Example:
  etcd --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379";

/// etcd by its flags.
pub(super) fn reference() -> Reference {
    Reference {
        name: "etcd",
        about: "What stands in for etcd beside Muster's kube-apiserver.",
        version: concat!("Version: 3.6.8+muster-", env!("CARGO_PKG_VERSION")),
        examples: EXAMPLES,
        flags: include_str!("etcd.flags"),
        meant: &[
            ("cert-file", "The certificate (PEM) to show on https URLs"),
            ("key-file", "The key (PEM) of --cert-file"),
            ("listen-client-http-urls", "Where to answer besides, by commas"),
            ("listen-client-urls", "Where to answer, by commas [default: http://localhost:2379]"),
        ],
        own: &[],
        single_dash: true,
    }
}

/// Answers until a signal ends it.
pub(super) async fn run(given: &Given, mut signals: Signals) -> Result<()> {
    tell_accepted(given);
    let mut urls: Vec<(&str, &str)> = Vec::new();
    for flag in ["listen-client-urls", "listen-client-http-urls"] {
        urls.extend(given.list(flag).map(|url| (flag, url)));
    }
    if given.text("listen-client-urls").is_none() {
        urls.push(("listen-client-urls", "http://localhost:2379"));
    }
    let mut tls = None;
    let stop = Sender::new(false);
    let mut handles = Vec::new();
    for (flag, url) in urls {
        let what = || format!("--{flag} {url}");
        let (secure, addresses) = addresses(url).with_context(what)?;
        if secure && tls.is_none() {
            tls = Some(certificate(given).with_context(what)?);
        }
        let listener =
            TcpListener::bind(&addresses[..]).with_context(|| format!("{}: cannot be listened on", what()))?;
        listener.set_nonblocking(true).with_context(what)?;
        let listener = tokio::net::TcpListener::from_std(listener).with_context(what)?;
        let service = tower::service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
        handles.push(
            serve_service(listener, service, tls.as_ref().filter(|_| secure), stop.clone(), Patience::SHORT)
                .with_context(what)?,
        );
    }
    signals.next().await;
    Ok(())
}

/// Whether a URL is one of TLS, and the addresses of its host.
fn addresses(url: &str) -> Result<(bool, Vec<SocketAddr>)> {
    let Some((scheme @ ("http" | "https"), rest)) = url.split_once("://") else {
        bail!("expected a URL such as http://127.0.0.1:2379");
    };
    let authority = rest.trim_end_matches('/');
    let found = authority.to_socket_addrs().with_context(|| format!("found {authority:?}, expected HOST:PORT"))?;
    Ok((scheme == "https", found.collect()))
}

fn certificate(given: &Given) -> Result<Tls> {
    let pair = [files::named(given, "cert-file")?, files::named(given, "key-file")?];
    let [Some(certificate), Some(key)] = pair else { bail!("expected --cert-file and --key-file for https") };
    Ok(Tls::from_pem(&certificate, &key, false)?)
}

/// What etcd answers to whoever wants to know how it is.
fn answer<B>(request: &Request<B>) -> Response<Full<Bytes>> {
    const JSON: &str = "application/json";
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match request.uri().path() {
        "/health" => (StatusCode::OK, JSON, r#"{"health":"true","reason":""}"#),
        "/version" => {
            let version = r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0","storage":"3.6.0"}"#;
            (StatusCode::OK, JSON, version)
        }
        "/livez" | "/readyz" => (StatusCode::OK, TEXT, "ok\n"),
        _ => (StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
