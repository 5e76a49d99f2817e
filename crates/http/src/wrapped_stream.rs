//! Streams that wrap the `stream` of a connection.

/// Forwards the methods of `AsyncWrite` that no wrapper changes.
macro_rules! forward_flush_and_shutdown {
    () => {
        fn is_write_vectored(&self) -> bool {
            self.stream.is_write_vectored()
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(context)
        }
    };
}

pub(crate) use forward_flush_and_shutdown;
