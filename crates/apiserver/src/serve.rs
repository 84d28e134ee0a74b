//! Sockets: accepting connections and serving HTTP/1.1 and HTTP/2 on them, with TLS or without (API-01).
//!
//! Whatever a peer sends or does not send, only its own connection can suffer: how long it may take for its handshake,
//! for the head of a request and between two requests is limited, and so is how many connections there are: where there
//! are many, those without a request give their places to others. Shutdown ends watches first, lets other requests
//! finish, then closes what is idle.

mod idle;
mod kubeconfig;
#[cfg(test)]
mod tests;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::util::MapRequest;
use tracing::debug;

pub use self::idle::Patience;
use self::idle::{Counted, Counter};
pub use self::kubeconfig::kubeconfig;
use self::websocket::Upgrading;
use crate::ApiServer;
pub use crate::http::body::Lasting;
use crate::tls::Tls;

/// How long a peer may take for its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often it is looked meanwhile which has none any more.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is told that all have requests in work.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Who has not asked anything for so long goes before all who have asked once.
const FIRST_WORD: Duration = Duration::from_secs(3);
/// In which turn one goes that may still ask its first.
const NEW: u8 = 2;
/// A connection of HTTP/2 whose peer is gone is noticed after this long, and closed after another half.
const PING: Duration = Duration::from_secs(30);
/// How long connections may take to finish once they are told to, or the server stops.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more file descriptors.
const BREATHER: Duration = Duration::from_millis(50);

/// Any boxed error.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A server that listens.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    stop: Sender<bool>,
    task: JoinHandle<()>,
}

impl Handle {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, ends watches, and waits for requests in flight, 5 seconds at most.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // A task that panicked has nothing left to wait for.
        let _ = self.task.await;
    }
}

/// Serves on a listener; with `tls` HTTPS, else plain HTTP. Requests must carry the server's token.
///
/// # Errors
/// When the listener has no address.
pub fn serve(listener: TcpListener, server: &ApiServer, tls: Option<&Tls>) -> io::Result<Handle> {
    serve_service(listener, server.guarded_service(), tls, server.stopping(), Patience::API)
}

/// Serves anything on a listener, in the same way, until `stop` says so. A request whose service fails is not answered: its
/// stream is reset, or where it has none its connection closed.
///
/// # Errors
/// When the listener has no address.
pub fn serve_service<S, B>(
    listener: TcpListener,
    service: S,
    tls: Option<&Tls>,
    stop: Sender<bool>,
    patience: Patience,
) -> io::Result<Handle>
where
    S: tower::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, (service, patience), tls.cloned(), stop.subscribe()));
    Ok(Handle { address, stop, task })
}

/// Serves one connection on any stream, such as a pipe in the same process, until it ends. Requests must carry
/// the server's token.
pub async fn serve_stream<S>(stream: S, server: &ApiServer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = SocketAddr::from(([127, 0, 0, 1], 0));
    let counted = (Counter::new(), Patience::API);
    speak(stream, peer, server.guarded_service(), counted, &builder(), server.stopping().subscribe()).await;
}

/// The places for connections, and who has them. Of so many and a tenth fewer, one is told to leave for each that comes: the
/// one that has been without a request for longest, but for those that have just come. Where there are too many all the same
/// it is closed at once; and a further one waits where all have requests in work.
struct Places {
    /// How many there are.
    all: usize,
    free: Arc<Semaphore>,
    taken: Vec<(AbortHandle, Counter)>,
    /// When it was told last that all have requests in work.
    warned: Option<Instant>,
}

impl Places {
    fn new(all: usize) -> Self {
        Self { all, free: Arc::new(Semaphore::new(all)), taken: Vec::new(), warned: None }
    }

    /// A place, once there is one.
    async fn next(&mut self) -> OwnedSemaphorePermit {
        self.taken.retain(|(connection, _)| !connection.is_finished());
        if self.taken.len() >= self.all - self.all / 10
            && let Some(at) = self.first_to_go(|rank, requests| rank < NEW && !requests.leaves())
        {
            self.taken[at].1.leave();
        }
        loop {
            if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
                return place;
            }
            match self.first_to_go(|_, _| true) {
                Some(at) => self.taken.swap_remove(at).0.abort(),
                None if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) => {
                    self.warned = Some(Instant::now());
                    tracing::warn!(connections = self.all, "all connections have requests in work: further ones wait");
                }
                None => {}
            }
            let freed = tokio::time::timeout(LOOK_AGAIN, Arc::clone(&self.free).acquire_owned()).await;
            if let Ok(Ok(place)) = freed {
                return place;
            }
        }
    }

    /// Which one can be spared first: one that has said nothing for long, one that asks nothing any more, one that has said
    /// nothing yet.
    fn first_to_go(&self, may: impl Fn(u8, &Counter) -> bool) -> Option<usize> {
        let now = Instant::now();
        let at_rest = self.taken.iter().enumerate().filter_map(|(at, (_, requests))| {
            let (has_asked, since) = requests.at_rest()?;
            let is_new = now.duration_since(since) < FIRST_WORD;
            let rank = if has_asked { 1 } else { NEW * u8::from(is_new) };
            may(rank, requests).then_some((rank, since, at))
        });
        at_rest.min().map(|(_, _, at)| at)
    }
}

async fn accept<S, B>(
    listener: TcpListener,
    (service, patience): (S, Patience),
    tls: Option<Tls>,
    mut stopping: Receiver<bool>,
) where
    S: tower::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let builder = Arc::new(builder());
    let mut connections = JoinSet::new();
    let mut places = Places::new(patience.connections);
    loop {
        let accepted = async {
            let accepted = listener.accept().await?;
            Ok::<_, io::Error>((accepted, places.next().await))
        };
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            accepted = accepted => match accepted {
                Ok(((stream, peer), place)) => {
                    // A socket that cannot be set so is served as it is.
                    let _ = stream.set_nodelay(true);
                    let requests = Counter::new();
                    let counted = (requests.clone(), patience);
                    let (service, tls) = (service.clone(), tls.clone());
                    let (builder, stopping) = (Arc::clone(&builder), stopping.clone());
                    let connection = connections.spawn(async move {
                        let begins = match &tls {
                            Some(_) => tokio::time::timeout(HANDSHAKE, begins_without_tls(&stream)).await,
                            None => Ok(false),
                        };
                        match begins {
                            Ok(true) => refuse_without_tls(stream).await,
                            Ok(false) => connection(stream, peer, service, counted, tls, builder, stopping).await,
                            Err(_) => debug!(%peer, "TLS handshake took too long"),
                        }
                        drop(place);
                    });
                    places.taken.push((connection, requests));
                }
                Err(error) => {
                    debug!(%error, "accept failed");
                    tokio::time::sleep(BREATHER).await;
                }
            },
        }
        // Those that have ended.
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let finish = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, finish).await;
    connections.shutdown().await;
}

/// Whether a client sends a request where it should begin with TLS.
async fn begins_without_tls(stream: &TcpStream) -> bool {
    const BEGINNINGS: [&[u8]; 7] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"PATCH", b"DELET"];
    let mut first = [0; 5];
    let read = stream.peek(&mut first).await.unwrap_or(0);
    read > 0 && BEGINNINGS.iter().any(|beginning| beginning.starts_with(&first[..read]))
}

/// Tells such a client what it does wrong, in the words of Go's server.
async fn refuse_without_tls(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    // What is not read would end the connection before the answer is there.
    let _ = stream.try_read(&mut [0; 8 << 10]);
    // It may be gone.
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
}

/// Waits until the server stops.
async fn stopped(stopping: &mut Receiver<bool>) {
    // A sender that is gone stops the server, too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// How many requests one HTTP/2 connection may have at once, watches among them; as in the reference.
const STREAMS: u32 = 100;

/// How long the head of a request may be, in bytes; as in the reference.
const LARGEST_HEAD: u32 = 1 << 20;
/// How many headers it may have over HTTP/1.1, where room for all of them is made ahead. The reference has no such limit.
const MOST_HEADERS: usize = 1_000;
/// How long a frame of HTTP/2 may be that a client sends, in bytes; as in the reference.
const LARGEST_FRAME: u32 = 256 << 10;

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // The limit for the head of a request is that of an idle connection: see `idle`.
    builder.http1().header_read_timeout(None).max_headers(MOST_HEADERS).max_buf_size(LARGEST_HEAD as usize);
    let http2 = &mut builder.http2();
    http2.max_header_list_size(LARGEST_HEAD).max_frame_size(LARGEST_FRAME);
    http2.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    http2.keep_alive_interval(PING).keep_alive_timeout(PING / 2);
    builder
}

async fn connection<T, S, B>(
    stream: T,
    peer: SocketAddr,
    service: S,
    counted: (Counter, Patience),
    tls: Option<Tls>,
    builder: Arc<Builder<TokioExecutor>>,
    stopping: Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    match tls {
        None => speak(stream, peer, service, counted, &builder, stopping).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls.config()).accept(stream)).await {
            Ok(Ok(stream)) => {
                let holder = tls.holder(stream.get_ref().1.peer_certificates());
                let service = MapRequest::new(service, move |mut request: Request<Incoming>| {
                    if let Some(holder) = &holder {
                        request.extensions_mut().insert(holder.clone());
                    }
                    request
                });
                speak(stream, peer, service, counted, &builder, stopping).await;
            }
            Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => debug!(%peer, "TLS handshake took too long"),
        },
    }
}

async fn speak<T, S, B>(
    stream: T,
    peer: SocketAddr,
    service: S,
    (requests, patience): (Counter, Patience),
    builder: &Builder<TokioExecutor>,
    mut stopping: Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (service, upgraded) = Upgrading::new(service);
    let (service, idle) = Counted::new(service, requests.clone(), patience);
    let ended = {
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stopped(&mut stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = idle.ended() => {
                // Told first, so that a peer that was about to ask asks elsewhere.
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
            }
        }
    };
    if let Err(error) = ended {
        debug!(%peer, error, "connection ended");
    }
    // The connection is dropped by now: a WebSocket that was promised and did not come about ends here, too.
    let _open = requests.begin();
    upgraded.finish().await;
}
