//! The last moment at which a write can be held back: right before its bytes are given to the kernel.
//!
//! A request that was let through waits for its turn on the connection, for a moment as a rule. A process that is
//! stopped in that moment and goes on after its lease has run out would send it then, however long ago the lease was
//! asked about. So the socket asks again, each time that it is written to.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Fence;

/// A connection that nothing is written to while the fence says no. A write that is held back breaks it, so that what
/// waits in it is never sent.
pub(super) struct Gated<T> {
    io: T,
    /// Asked before each write.
    fence: Fence,
}

impl<T> Gated<T> {
    pub(super) fn new(io: T, fence: Fence) -> Self {
        Self { io, fence }
    }

    fn may_write(&self) -> io::Result<()> {
        if !(self.fence)() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "not sent, for the leader's lease is not held",
            ));
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gated<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gated<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.may_write()?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.may_write()?;
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: Connection> Connection for Gated<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Contract: CM-05
    #[tokio::test(start_paused = true)]
    async fn what_waits_in_a_connection_is_held_back_and_reading_goes_on() {
        let (near, mut far) = tokio::io::duplex(4);
        let open = Arc::new(AtomicBool::new(true));
        let fence: Fence = {
            let open = Arc::clone(&open);
            Arc::new(move || open.load(Ordering::SeqCst))
        };
        let mut gated = Gated::new(near, fence);
        // Four of the six bytes fit; two wait until there is room, and by then the lease is gone.
        let writing = tokio::spawn(async move { (gated.write_all(b"before").await.map_err(|e| e.kind()), gated) });
        tokio::task::yield_now().await;
        open.store(false, Ordering::SeqCst);
        let mut seen = [0; 4];
        far.read_exact(&mut seen).await.unwrap();
        let (written, mut gated) = writing.await.unwrap();
        assert_eq!((written, &seen), (Err(io::ErrorKind::PermissionDenied), b"befo"));

        far.write_all(b"yes").await.unwrap();
        let mut heard = [0; 3];
        gated.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"yes");
        drop(gated);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "nothing followed");
    }
}
