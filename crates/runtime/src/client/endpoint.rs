//! Connections to a real server: kube's configuration, authentication and TLS under our own connection pool.
//!
//! The stack is kube's except for its two ends. At the top there is no retry layer and no buffer:
//! [`Client`](super::Client) decides what may be sent again, by the verb. At the bottom the connection uses HTTP/2 if
//! the server does, as every Kubernetes client should: a burst of 500 creates is 500 streams on one connection, not 500
//! handshakes; and a ping notices a peer that is gone.
//!
//! The stack is built from resolved credentials ([`Credentials`]), and built again when they change. Requests in
//! progress end on the older connections: a watch within ten minutes.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use hyper_util::{
    client::legacy::{
        Client as Pool,
        connect::{Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{client::ConfigExt, config::AuthInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{Service, ServiceBuilder, ServiceExt as _};

use super::{
    Fence,
    credentials::{Credentials, CredentialsError},
    error::{BoxError, ClientError},
    gate::Gated,
    gathered::Gathered,
    slices::Slices,
    transport::{RequestBody, ResponseBody, Through, Transport},
};
use crate::clock::Clock;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of one answer, and of all together, the server may send before we have read them. Sizes that stay
/// what they are need none of the pings by which hyper would find better ones. A watch that is read at 50 ms from the
/// server comes at 10 MB a second.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// A silent connection is asked whether it is there after this long, and given up after another half.
const PING: Duration = Duration::from_secs(30);

/// What the server has not received after this long the kernel sends no more, where writes are fenced: a Lease is respected 5 s
/// longer than its holder writes. Not set elsewhere than on Linux.
#[cfg(target_os = "linux")]
const UNRECEIVED: Duration = Duration::from_secs(5);

/// The transport to the server that `config` names. There is none that does not verify who the server is.
pub(super) fn transport(config: &kube::Config, clock: Clock) -> Result<Box<dyn Transport>, ClientError> {
    verified(config)?;
    let credentials = Arc::new(Credentials::new(config.auth_info.clone(), clock));
    let server = Server { config: config.clone(), credentials, fence: None, ways: Mutex::default() };
    // Configuration errors are reported at the start, as far as nothing has to be run to find them.
    tcp(config)?;
    if let Some(auth) = server.credentials.now() {
        server.ways(&auth.map_err(|error| configuration("user", error))?)?;
    }
    Ok(Box::new(Endpoint(Arc::new(server))))
}

/// A server, as who is known to it now.
struct Endpoint(Arc<Server>);

struct Server {
    config: kube::Config,
    credentials: Arc<Credentials>,
    /// What each write to a socket asks first.
    fence: Option<Fence>,
    /// Made when credentials are known, and made anew when there are others.
    ways: Mutex<Option<Ways>>,
}

/// Connections to a server.
#[derive(Clone)]
struct Ways {
    /// By these credentials.
    auth: Arc<AuthInfo>,
    /// Watches have a connection of their own: it is read in slices, and no answer is to wait for that.
    watches: Arc<dyn Transport>,
    others: Arc<dyn Transport>,
}

impl Transport for Endpoint {
    fn call(&self, request: Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            let auth = server.credentials.current().await?;
            let Ways { watches, others, .. } = server.ways(&auth)?;
            let query = request.uri().query().unwrap_or_default();
            let is_watch = query.split('&').any(|parameter| parameter == "watch=true");
            let answer = if is_watch { watches.call(request) } else { others.call(request) }.await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                server.credentials.refused(&auth);
            }
            Ok(answer)
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(self.0.credentials.current().await.map(drop)?) })
    }

    fn another(&self, fence: Option<&Fence>) -> Option<Box<dyn Transport>> {
        let Server { config, credentials, .. } = &*self.0;
        let (config, credentials) = (config.clone(), Arc::clone(credentials));
        Some(Box::new(Endpoint(Arc::new(Server {
            config,
            credentials,
            fence: fence.cloned(),
            ways: Mutex::default(),
        }))))
    }
}

impl Server {
    /// The connections for `auth`. If they cannot be built (a certificate was renewed, but not its key yet), the
    /// existing ones are kept until the credentials change again.
    fn ways(&self, auth: &Arc<AuthInfo>) -> Result<Ways, ClientError> {
        let mut known = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ways) = known.as_ref().filter(|ways| Arc::ptr_eq(&ways.auth, auth)) {
            return Ok(ways.clone());
        }
        let ways = match (self.open(auth), known.take()) {
            (Ok(ways), _) => ways,
            (Err(error), Some(ways)) => {
                tracing::warn!(%error, "renewed credentials cannot be used");
                Ways { auth: Arc::clone(auth), ..ways }
            }
            (Err(error), None) => return Err(error),
        };
        Ok(known.insert(ways).clone())
    }

    fn open(&self, auth: &Arc<AuthInfo>) -> Result<Ways, ClientError> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo::clone(auth);
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "it is set on Linux only"))]
        let (auth, mut tcp) = (Arc::clone(auth), tcp(&config)?);
        if let Some(fence) = self.fence.clone() {
            #[cfg(target_os = "linux")]
            tcp.set_tcp_user_timeout(Some(UNRECEIVED));
            let gate = move |io: TokioIo<_>| TokioIo::new(Gated::new(io.into_inner(), fence.clone()));
            let gated: Arc<dyn Transport> = over(tcp.map_response(gate), &config)?.into();
            return Ok(Ways { auth, watches: Arc::clone(&gated), others: gated });
        }
        let sliced = tcp.clone().map_response(|io: TokioIo<_>| TokioIo::new(Slices::new(io.into_inner())));
        Ok(Ways { auth, watches: over(sliced, &config)?.into(), others: over(tcp, &config)?.into() })
    }
}

/// What opens a socket to the server.
fn tcp(config: &kube::Config) -> Result<HttpConnector, ClientError> {
    if let Some(proxy) = &config.proxy_url {
        let proxy = without_user(proxy);
        let why = format!(
            "connections through a proxy ({proxy}) are not supported; HTTPS_PROXY does not count for a server that \
             NO_PROXY names"
        );
        return Err(configuration("proxy-url", why));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING));
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT_TIMEOUT)));
    Ok(tcp)
}

/// A pool of connections, each of which `tcp` makes.
fn over<C, T>(tcp: C, config: &kube::Config) -> Result<Box<dyn Transport>, ClientError>
where
    C: Service<Uri, Response = TokioIo<T>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    T: AsyncRead + AsyncWrite + Connection + Send + Unpin + 'static,
{
    let tls = config.rustls_client_config().map_err(|error| configuration("TLS", error))?;
    let mut connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = rustls_name(name)?;
        connector = connector.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let connector = connector.enable_all_versions().wrap_connector(tcp);
    let connector = ServiceBuilder::new().map_response(Gathered::new).service(connector);

    let pool: Pool<_, RequestBody> = Pool::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING / 2)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| configuration("authentication", error))?)
        .layer(config.extra_headers_layer().map_err(|error| configuration("headers", error))?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(Box::new(Through(service)))
}

/// Requires that the server proves its identity: requests carry credentials, and answers are acted on.
pub(super) fn verified(config: &kube::Config) -> Result<(), ClientError> {
    if config.accept_invalid_certs {
        return Err(configuration(
            "insecure-skip-tls-verify",
            "found true, expected false or nothing: the server's certificate is always verified; name its authority \
             by certificate-authority or certificate-authority-data",
        ));
    }
    let server = &config.cluster_url;
    if server.scheme() != Some(&http::uri::Scheme::HTTPS) && !is_here(server) {
        let server = without_user(server);
        let why = format!("found {server}, expected https: only a server on this machine may be reached without TLS");
        return Err(configuration("server", why));
    }
    Ok(())
}

/// An address for an error message: the user and the password that it may carry are nobody's to read.
pub(super) fn without_user(address: &Uri) -> String {
    let port = address.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", address.scheme_str().unwrap_or("http"), address.host().unwrap_or_default())
}

/// Whether a server is on this machine.
pub(super) fn is_here(server: &Uri) -> bool {
    server.host().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.map_or(host == "localhost", |address| address.is_loopback())
    })
}

/// Whether an error of this transport says that the server has never seen the request.
pub(super) fn never_sent(error: &BoxError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>()
            && error.is_connect()
        {
            return true;
        }
        let unknown_who = matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Auth(_)));
        if unknown_who || error.is::<CredentialsError>() || error.is::<ClientError>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn rustls_name(name: &str) -> Result<rustls_pki_types::ServerName<'static>, ClientError> {
    name.to_owned().try_into().map_err(|error| configuration("tls-server-name", error))
}

fn configuration(what: &'static str, source: impl Into<BoxError>) -> ClientError {
    ClientError::Configuration { what: what.into(), source: source.into() }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use kube::config::{ExecConfig, ExecInteractiveMode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Answers each request on each connection with 200; what the requests had as `Authorization`.
    fn server(listener: tokio::net::TcpListener) -> tokio::sync::mpsc::UnboundedReceiver<String> {
        let (sender, seen) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut head = String::new();
                    while let Ok(byte) = stream.read_u8().await {
                        head.push(char::from(byte));
                        if head.ends_with("\r\n\r\n") {
                            let line = head.lines().find_map(|line| line.strip_prefix("authorization: "));
                            let _ = sender.send(line.unwrap_or_default().to_owned());
                            head.clear();
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                        }
                    }
                });
            }
        });
        seen
    }

    /// Reads, writes and other clients of the process send what the plugin said last, and it is run for none of them in
    /// particular.
    ///
    /// Contract: CM-03
    #[tokio::test]
    async fn requests_carry_what_the_plugin_said_last() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs").to_string_lossy().into_owned();
        let says = |until: &str| {
            let status = format!(r#"{{"expirationTimestamp": "{until}", "token": "t%s"}}"#);
            format!(r#"echo x >> {runs}; printf '{{"status": {status}}}' $(wc -l < {runs})"#)
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let mut seen = server(listener);
        let plugin = |until: &str| ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), says(until)]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        let ask = async |transport: &dyn Transport, path: &str| {
            let request = Request::get(path).body(Full::default()).unwrap();
            assert_eq!(transport.call(request).await.unwrap().status(), 200);
        };

        config.auth_info.exec = Some(plugin("2999-01-01T00:00:00Z"));
        let first = transport(&config, Clock::system()).unwrap();
        let second = first.another(None).unwrap();
        let gated = first.another(Some(&(Arc::new(|| true) as Fence))).unwrap();
        for (transport, path) in [(&first, "/a"), (&first, "/a?watch=true"), (&second, "/b"), (&gated, "/c")] {
            ask(&**transport, path).await;
            assert_eq!(seen.recv().await.unwrap(), "Bearer t1", "{path}");
        }

        // What has expired is not sent.
        config.auth_info.exec = Some(plugin("2000-01-01T00:00:00Z"));
        let expiring = transport(&config, Clock::system()).unwrap();
        for expected in ["Bearer t2", "Bearer t3"] {
            ask(&*expiring, "/a").await;
            assert_eq!(seen.recv().await.unwrap(), expected);
        }
    }

    /// Contract: CM-03
    #[tokio::test]
    async fn what_is_known_to_be_wrong_is_said_at_the_start() {
        let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        config.auth_info.client_certificate = Some("/no/such.crt".to_owned());
        config.auth_info.client_key = Some("/no/such.key".to_owned());
        let error = transport(&config, Clock::system()).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.starts_with("user: credentials: /no/such.crt cannot be read: "), "{error}");
    }

    /// What is wrong with a configuration; empty where nothing is.
    fn refused(server: &str, accept_invalid_certs: bool) -> String {
        let mut config = kube::Config::new(server.parse().unwrap());
        config.accept_invalid_certs = accept_invalid_certs;
        verified(&config).map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// Contract: CM-03
    #[test]
    fn verification_cannot_be_switched_off() {
        let error = refused("https://10.0.0.1:6443", true);
        assert!(error.starts_with("insecure-skip-tls-verify: found true, expected false"), "{error}");
        assert_eq!(refused("https://10.0.0.1:6443", false), "");
        assert!(!refused("http://127.0.0.1:8001", true).is_empty());
    }

    /// Contract: CM-03
    #[test]
    fn only_this_machine_is_spoken_to_without_tls() {
        for server in ["http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]:8001", "http://127.8.8.8"] {
            assert_eq!(refused(server, false), "", "{server}");
        }
        for server in ["http://10.0.0.1:8080", "http://kubernetes.default.svc", "http://localhost.example:80"] {
            let error = refused(server, false);
            assert!(error.starts_with(&format!("server: found {server}")), "{error}");
        }
    }

    #[test]
    fn an_error_does_not_name_the_user_of_an_address() {
        for (address, shown) in [
            ("http://me:secret@proxy.example:3128/x", "http://proxy.example:3128"),
            ("http://me:secret@server.example", "http://server.example"),
            ("socks5://[::1]:1080", "socks5://[::1]:1080"),
        ] {
            assert_eq!(without_user(&address.parse().unwrap()), shown);
        }
        let mut config = kube::Config::new("http://me:secret@server.example".parse().unwrap());
        let error = verified(&config).unwrap_err().to_string();
        assert!(error.contains("found http://server.example,") && !error.contains("secret"), "{error}");
        config.proxy_url = Some("http://me:secret@proxy.example:3128".parse().unwrap());
        let error = tcp(&config).unwrap_err().to_string();
        assert!(error.contains("(http://proxy.example:3128)") && !error.contains("secret"), "{error}");
    }
}
