//! Closes a connection if its client stops reading for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::wrapped_stream::forward_flush_and_shutdown;

/// A stream whose writes fail if nothing can be written for `pause`.
///
/// A response stays in memory until it is written. Without a time-out, a client that never reads would hold its
/// responses and its connection forever.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    pause: Duration,
    /// Active while a write is waiting.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) const fn new(stream: S, pause: Duration) -> Self {
        Self { stream, pause, waiting: None }
    }

    /// The result of a write, or an error if it waited too long.
    fn written(&mut self, context: &mut Context<'_>, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if write.is_ready() {
            self.waiting = None;
            return write;
        }
        let pause = self.pause;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(pause))).as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, write)
    }

    forward_flush_and_shutdown!();
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (server, client) = duplex(10);
        let (began, mut server) = (Instant::now(), WriteTimeout::new(server, PAUSE));
        assert_eq!(server.write_all(&[0; 11]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), PAUSE);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_reads_goes_on() {
        let (server, mut client) = duplex(10);
        let mut server = WriteTimeout::new(server, PAUSE);
        let reading = async {
            let mut bytes = [0; 10];
            for _ in 0..10 {
                sleep(PAUSE / 2).await;
                client.read_exact(&mut bytes).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(server.write_all(&[0; 100]), reading);
        written.unwrap();
    }
}
