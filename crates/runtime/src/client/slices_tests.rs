//! A connection that is fed by the test, under paused time.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Waker,
};

use super::*;

/// A socket: what has come is there in one read.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    come: Vec<u8>,
    ended: bool,
    reader: Option<Waker>,
    reads: usize,
    /// How often the reactor woke, and how often the connection was given back to it.
    woken: usize,
    put_back: usize,
    written: Vec<u8>,
}

impl Wire {
    fn send(&self, bytes: &[u8]) {
        let mut inner = self.0.lock().unwrap();
        inner.come.extend_from_slice(bytes);
        if let Some(reader) = inner.reader.take() {
            inner.woken += 1;
            reader.wake();
        }
    }

    fn end(&self) {
        self.0.lock().unwrap().ended = true;
    }

    /// Reads, and how many of them the reactor woke for.
    fn reads(&self) -> (usize, usize) {
        let inner = self.0.lock().unwrap();
        (inner.reads, inner.woken)
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock().unwrap();
        if inner.come.is_empty() && !inner.ended {
            inner.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = inner.come.len().min(buffer.remaining());
        buffer.put_slice(&inner.come[..bytes]);
        inner.come.drain(..bytes);
        inner.reads += 1;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The same, out of the reactor: it takes three bytes of each write, and then none for once.
struct Bare {
    wire: Wire,
    full: bool,
}

impl Read for Bare {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut self.wire.clone()).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer) {
            Poll::Ready(_) => Ok(buffer.filled().len()),
            Poll::Pending => {
                self.wire.0.lock().unwrap().reader = None;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }
}

impl Write for Bare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.full, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(3);
        self.wire.0.lock().unwrap().written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for Wire {
    type Bare = Bare;

    fn take_out(self) -> io::Result<Bare> {
        Ok(Bare { wire: self, full: false })
    }

    fn put_back(bare: Bare) -> io::Result<Self> {
        bare.wire.0.lock().unwrap().put_back += 1;
        Ok(bare.wire)
    }
}

/// The connection, and the server's end of it.
fn connected() -> (Slices<Wire>, Wire) {
    let socket = Wire::default();
    (Slices::new(socket.clone()), socket)
}

/// The next byte; none at the end.
async fn read<S: Socket>(slices: &mut Slices<S>) -> Option<u8> {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    poll_fn(|cx| Pin::new(&mut *slices).poll_read(cx, &mut buffer)).await.unwrap();
    buffer.filled().first().copied()
}

/// Sends `count` bytes, one every `every`, and reads them; returns the longest delay of one.
async fn exchange(slices: &mut Slices<Wire>, server: &Wire, count: u8, every: Duration) -> Duration {
    let server = server.clone();
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for byte in 0..count {
            tokio::time::sleep_until(start + every * u32::from(byte)).await;
            server.send(&[byte]);
        }
    });
    let mut longest = Duration::ZERO;
    for byte in 0..count {
        assert_eq!(read(slices).await, Some(byte));
        longest = longest.max(start.elapsed().saturating_sub(every * u32::from(byte)));
    }
    sending.await.unwrap();
    longest
}

#[tokio::test(start_paused = true)]
async fn what_comes_alone_is_read_at_once() {
    let (mut slices, server) = connected();
    assert_eq!(exchange(&mut slices, &server, 100, CLOSE).await, Duration::ZERO);
    // Nor is a handshake held back.
    let (mut slices, server) = connected();
    assert_eq!(exchange(&mut slices, &server, 7, Duration::from_millis(1)).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_numbers_is_read_together_and_hardly_later() {
    let (mut slices, server) = connected();
    let longest = exchange(&mut slices, &server, 200, Duration::from_millis(1)).await;
    assert!(longest > Duration::ZERO && longest <= SLICE, "{longest:?}");
    let (reads, woken) = server.reads();
    assert!(reads <= 9 + 200 / 4 + 2, "{reads} reads");
    assert!(woken <= 9, "{woken} times");

    // It is quiet again.
    let quiet = tokio::time::timeout(CLOSE, read(&mut slices)).await;
    assert!(quiet.is_err());
    let before = Instant::now();
    server.send(&[7]);
    assert_eq!(read(&mut slices).await, Some(7));
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(server.0.lock().unwrap().put_back, 1);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_is_not_held_back() {
    let (mut slices, server) = connected();
    server.send(&vec![1; 20 * BUFFER]);
    let before = Instant::now();
    for _ in 0..20 * BUFFER {
        assert_eq!(read(&mut slices).await, Some(1));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(server.reads().0, 20);
    server.end();
    assert_eq!(read(&mut slices).await, None, "the end is one");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_meanwhile_goes_out_at_once_and_in_order() {
    let (mut slices, server) = connected();
    exchange(&mut slices, &server, 50, Duration::from_millis(1)).await;
    let before = Instant::now();
    let mut rest: &[u8] = b"a frame";
    while !rest.is_empty() {
        let written = poll_fn(|cx| Pin::new(&mut slices).poll_write(cx, rest)).await.unwrap();
        rest = &rest[written..];
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    let inner = server.0.lock().unwrap();
    assert_eq!((&*inner.written, inner.put_back), (&b"a frame"[..], 1));
}

#[tokio::test]
async fn a_real_socket_goes_out_of_the_reactor_and_back() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut said = Vec::new();
        for byte in 0..100 {
            socket.write_all(&[byte]).unwrap();
            let mut answer = [0];
            socket.read_exact(&mut answer).unwrap();
            said.extend(answer);
        }
        socket.read_to_end(&mut said).unwrap();
        said
    });
    let mut slices = Slices::new(TcpStream::connect(address).await.unwrap());
    for byte in 0..100 {
        // By hand, because how close reads are to each other is the machine's business here.
        slices.attended().unwrap();
        if byte % 2 == 0
            && let Place::Attended(socket) = std::mem::replace(&mut slices.place, Place::Lost)
        {
            slices.place = Place::Unattended(socket.take_out().unwrap());
        }
        assert_eq!(read(&mut slices).await, Some(byte));
        poll_fn(|cx| Pin::new(&mut slices).poll_write(cx, &[byte])).await.unwrap();
    }
    poll_fn(|cx| Pin::new(&mut slices).poll_shutdown(cx)).await.unwrap();
    assert_eq!(server.join().unwrap(), (0..100).collect::<Vec<u8>>());
}
