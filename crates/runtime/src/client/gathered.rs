//! A connection to which many small frames are written as one.
//!
//! A connection that takes several buffers at once gets each larger frame by itself, which under TLS is a record and a
//! system call for every pod that is created. One that takes a single buffer gets all frames that are ready together:
//! some twenty pods at a time in a burst.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// A connection that takes one buffer at a time.
#[derive(Debug)]
pub(super) struct Gathered<C> {
    inner: C,
}

impl<C> Gathered<C> {
    /// The same connection, written to in fewer and larger pieces.
    pub(super) fn new(inner: C) -> Self {
        Self { inner }
    }
}

impl<C: Connection> Connection for Gathered<C> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<C: Read + Unpin> Read for Gathered<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

// `is_write_vectored` is left at what the trait says, which is no.
impl<C: Write + Unpin> Write for Gathered<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_buffer_is_taken_at_a_time_and_arrives() {
        let (ours, mut theirs) = duplex(64);
        let inner = TokioIo::new(ours);
        assert!(inner.is_write_vectored(), "or there is nothing to hide");
        let mut gathered = Gathered::new(inner);
        assert!(!gathered.is_write_vectored());
        let written = poll_fn(|cx| Pin::new(&mut gathered).poll_write(cx, b"frames")).await.unwrap();
        poll_fn(|cx| Pin::new(&mut gathered).poll_shutdown(cx)).await.unwrap();
        let mut read = String::new();
        theirs.read_to_string(&mut read).await.unwrap();
        assert_eq!((written, read.as_str()), (6, "frames"));
    }
}
