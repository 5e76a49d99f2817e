//! The server side of TLS handshakes.

use std::io;
use std::time::Duration;

pub use mailapi_tls::ServerTls;
use tokio_rustls::TlsAcceptor;

use super::Stream;

/// Time limit for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Performs the handshake and replaces `stream` with the encrypted connection.
///
/// # Errors
/// If the client violates the protocol or exceeds the time-out, or the connection is already encrypted. `stream` is then
/// [`Stream::Lost`].
pub(crate) async fn encrypt(tls: &ServerTls, stream: &mut Stream) -> io::Result<()> {
    let plain = std::mem::replace(stream, Stream::Lost).into_plain()?;
    let handshake = TlsAcceptor::from(tls.mail()).accept(plain);
    let encrypted = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await??;
    *stream = Stream::Tls(Box::new(encrypted));
    Ok(())
}
