//! A busy connection is read in slices of time.
//!
//! A server sends each event of a watch by itself. When many come, most of the cost of an event is not its bytes but
//! the wake-ups: of the socket, the TLS record, the frame, the stream and its reader, each time for a kilobyte. So a
//! connection on which reads follow each other closely is taken out of the reactor, as a network card's interrupts are
//! turned off under load, and polled once in a slice of time. When a slice yields nothing, the connection returns to
//! the reactor, so single events are read at once.
//!
//! ```text
//!   attended (the reactor wakes) --many reads, close to each other--> unattended (a timer wakes)
//!            ^---------------------------nothing in a slice--------------------------+
//! ```

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

/// The most that is read at once, in bytes.
const BUFFER: usize = 64 * 1024;
/// How long a busy connection is left alone after a read. What comes meanwhile is so much later at most.
const SLICE: Duration = Duration::from_millis(4);
/// Reads that are closer than this follow each other closely.
const CLOSE: Duration = Duration::from_millis(10);
/// A connection is busy after this many such reads. A handshake has fewer.
const BUSY: u32 = 8;

/// A socket that can be taken out of the reactor and put back.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Sized {
    /// It, out of the reactor. It does not block: what would is [`io::ErrorKind::WouldBlock`].
    type Bare: Read + Write + Unpin;

    /// Takes it out.
    fn take_out(self) -> io::Result<Self::Bare>;

    /// Puts it back.
    fn put_back(bare: Self::Bare) -> io::Result<Self>;
}

impl Socket for TcpStream {
    type Bare = std::net::TcpStream;

    fn take_out(self) -> io::Result<Self::Bare> {
        self.into_std()
    }

    fn put_back(bare: Self::Bare) -> io::Result<Self> {
        Self::from_std(bare)
    }
}

/// A connection that is read in slices while it is busy. What is written goes out at once.
pub(super) struct Slices<S: Socket> {
    place: Place<S>,
    /// What was read; from `taken` to `filled` it waits to be taken.
    buffer: Box<[u8]>,
    taken: usize,
    filled: usize,
    last_read: Instant,
    /// How many reads have followed each other closely.
    close: u32,
    /// When the next slice begins, while the connection is unattended.
    pause: Pin<Box<Sleep>>,
}

/// Who wakes for the connection.
enum Place<S: Socket> {
    /// The reactor.
    Attended(S),
    /// The timer.
    Unattended(S::Bare),
    /// It was lost on the way between the two.
    Lost,
}

impl<S: Socket> Slices<S> {
    pub(super) fn new(socket: S) -> Self {
        Self {
            place: Place::Attended(socket),
            buffer: vec![0; BUFFER].into(),
            taken: 0,
            filled: 0,
            last_read: Instant::now(),
            close: 0,
            pause: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Reads what there is into the buffer; nothing at the end of the stream.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.place {
                Place::Attended(socket) => {
                    let mut buffer = ReadBuf::new(&mut self.buffer);
                    ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
                    (self.taken, self.filled) = (0, buffer.filled().len());
                    return Poll::Ready(self.count_read());
                }
                Place::Unattended(bare) => {
                    ready!(self.pause.as_mut().poll(cx));
                    match bare.read(&mut self.buffer) {
                        Ok(bytes) => {
                            (self.taken, self.filled) = (0, bytes);
                            if bytes < self.buffer.len() {
                                self.pause.as_mut().reset(Instant::now() + SLICE);
                            }
                            return Poll::Ready(Ok(()));
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            self.attended()?;
                        }
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                Place::Lost => return Poll::Ready(Err(lost())),
            }
        }
    }

    /// Counts a read that the reactor woke for, and takes the connection from it where there are too many.
    fn count_read(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.close = if now - self.last_read < CLOSE { self.close.saturating_add(1) } else { 0 };
        self.last_read = now;
        // A full buffer is a list in transfer: there is more, and it does not wait.
        if self.close >= BUSY && (1..self.buffer.len()).contains(&self.filled) {
            self.close = 0;
            self.pause.as_mut().reset(now + SLICE);
            let Place::Attended(socket) = std::mem::replace(&mut self.place, Place::Lost) else { return Err(lost()) };
            self.place = Place::Unattended(socket.take_out()?);
        }
        Ok(())
    }

    /// The socket in the reactor, which is added to it if necessary.
    fn attended(&mut self) -> io::Result<Pin<&mut S>> {
        if let Place::Unattended(_) = self.place
            && let Place::Unattended(bare) = std::mem::replace(&mut self.place, Place::Lost)
        {
            self.place = Place::Attended(S::put_back(bare)?);
        }
        match &mut self.place {
            Place::Attended(socket) => Ok(Pin::new(socket)),
            Place::Unattended(_) | Place::Lost => Err(lost()),
        }
    }

    /// Writes at once where the socket takes it, else as soon as it does.
    fn write(
        &mut self,
        bare: impl FnOnce(&mut S::Bare) -> io::Result<usize>,
        attended: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Place::Unattended(socket) = &mut self.place {
            match bare(socket) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                written => return Poll::Ready(written),
            }
        }
        attended(self.attended()?)
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection could not be handed to or taken from the reactor")
}

impl<S: Socket> AsyncRead for Slices<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.taken == self.filled {
            ready!(self.fill(cx))?;
        }
        let waiting = &self.buffer[self.taken..self.filled];
        let bytes = waiting.len().min(buffer.remaining());
        buffer.put_slice(&waiting[..bytes]);
        self.taken += bytes;
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for Slices<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|bare| bare.write(bytes), |socket| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|bare| bare.write_vectored(bytes), |socket| socket.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.place {
            Place::Attended(socket) => Pin::new(socket).poll_flush(cx),
            // What was written to a bare socket is the system's already.
            Place::Unattended(_) | Place::Lost => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attended()?.poll_shutdown(cx)
    }
}

impl<S: Socket + Connection> Connection for Slices<S> {
    fn connected(&self) -> Connected {
        match &self.place {
            Place::Attended(socket) => socket.connected(),
            Place::Unattended(_) | Place::Lost => Connected::new(),
        }
    }
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
