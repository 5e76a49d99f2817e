//! Bounds what unfinished heads of requests take in memory, all connections together.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::byte_budget::{BytePermit, Full};
use crate::wrapped_stream::forward_flush_and_shutdown;

/// Room for all heads together, [`FREE`] bytes of each aside. One client takes at most half of it.
pub(crate) const HEAD_ROOM: usize = 16 * 1024 * 1024;
/// Bytes of a head that take no room, so that a usual request never depends on others.
pub(crate) const FREE: usize = 4 * 1024;
/// Maximum length of a request's head; no more of one is kept.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The head that a connection receives. It is shared by the stream, which receives it, and the service, which is called
/// when it is complete.
#[derive(Clone)]
pub(crate) struct Head(Arc<Mutex<Receiving>>);

struct Receiving {
    /// What has arrived; `None` while a request is handled, when a body arrives.
    bytes: Option<usize>,
    held: BytePermit,
}

impl Head {
    pub(crate) fn new(held: BytePermit) -> Self {
        Self(Arc::new(Mutex::new(Receiving { bytes: Some(0), held })))
    }

    /// The head is complete, and its request is handled.
    pub(crate) fn complete(&self) {
        let mut receiving = self.receiving();
        receiving.bytes = None;
        receiving.held.release();
    }

    /// The request was answered; what arrives now is the next head.
    pub(crate) fn next(&self) {
        self.receiving().bytes = Some(0);
    }

    fn arrived(&self, more: usize) -> Result<(), Full> {
        let mut receiving = self.receiving();
        let Some(bytes) = receiving.bytes else { return Ok(()) };
        let bytes = (bytes + more).min(MAX_HEAD_BYTES);
        receiving.bytes = Some(bytes);
        receiving.held.resize(bytes.saturating_sub(FREE))
    }

    fn receiving(&self) -> MutexGuard<'_, Receiving> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that fails when there is no room for a head.
pub(crate) struct HeadRoom<S> {
    stream: S,
    head: Head,
}

impl<S> HeadRoom<S> {
    pub(crate) const fn new(stream: S, head: Head) -> Self {
        Self { stream, head }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadRoom<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let arrived = self.head.arrived(buffer.filled().len() - before);
        Poll::Ready(arrived.map_err(|Full| io::Error::new(io::ErrorKind::OutOfMemory, "too many unfinished requests")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadRoom<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    forward_flush_and_shutdown!();
}
