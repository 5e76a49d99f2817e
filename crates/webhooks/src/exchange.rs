//! The HTTP exchange with a receiver.
//!
//! A receiver is not trusted. Each connection resolves its name, checks the addresses, and goes to one of them. So a
//! different second answer of DNS has no effect (DNS rebinding). Redirects are not followed, the whole exchange has one
//! time limit, and the size of an answer is limited.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mailapi_backend::Dns;
use mailapi_model::Timestamp;
use mailapi_tls::Trust;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::answer::{Answer, retry_after};
use crate::guard::{AddressGuard, AddressRefused, Registrant};
use crate::url::{Host, ReceiverUrl};

/// The time limit of an attempt: from the look-up of the name to the end of the answer.
pub const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Maximum number of bytes that are read of an answer's body.
const MAX_READ_BYTES: usize = 64 * 1024;
/// Maximum number of bytes that are kept of it.
const MAX_KEPT_BYTES: usize = 1024;
/// Maximum number of bytes of an answer's head, and of a read.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of a host's addresses that are tried.
const MAX_TRIED: usize = 4;
/// The time limit of a connection to an address before the last one: one that answers nothing leaves time for others.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its URL.
    pub url: ReceiverUrl,
    /// Who registered it.
    pub registrant: Registrant,
}

/// One message to a receiver.
#[derive(Debug, Clone)]
pub struct Message {
    /// The value of `webhook-id`.
    pub id: String,
    /// The time of the attempt, for `webhook-timestamp`.
    pub at: Timestamp,
    /// The value of `webhook-signature`.
    pub signatures: String,
    /// The body, which is JSON.
    pub body: Bytes,
}

/// Why there is no answer. The texts are for admins: they can describe the operator's network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The name has no address, or the address may not receive events.
    #[error("{0}")]
    Refused(#[from] AddressRefused),
    /// The name could not be looked up.
    #[error("the host cannot be looked up: {0}")]
    NoAddress(String),
    /// No connection to any address.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// TLS failed, for example because the certificate is for another name.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The receiver did not answer with HTTP.
    #[error("no HTTP answer: {0}")]
    NoAnswer(String),
    /// The attempt took too long.
    #[error("no answer within 15 seconds")]
    TimedOut,
}

/// Sends messages to receivers.
pub struct Exchange {
    dns: Arc<dyn Dns>,
    guard: AddressGuard,
    trust: Trust,
    /// Loaded at the first use, because a system has many certificate authorities.
    tls: OnceLock<Arc<ClientConfig>>,
}

/// An open connection to a receiver. Dropping it closes it.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Exchange {
    /// Creates the sender of messages. `trust` decides which certificates of receivers are accepted.
    #[must_use]
    pub const fn new(dns: Arc<dyn Dns>, guard: AddressGuard, trust: Trust) -> Self {
        Self { dns, guard, trust, tls: OnceLock::new() }
    }

    /// Checks that a receiver's addresses are allowed now.
    ///
    /// # Errors
    /// [`ExchangeError::Refused`], or the failure of the look-up.
    pub async fn check(&self, receiver: &Receiver) -> Result<(), ExchangeError> {
        timeout(TIME_LIMIT, self.addresses(receiver)).await.map_err(|_| ExchangeError::TimedOut)?.map(drop)
    }

    /// Sends a message and returns the answer. Uses the connection in `kept`, which must be to the same receiver, and
    /// leaves a reusable connection there.
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub async fn send(
        &self,
        receiver: &Receiver,
        message: &Message,
        kept: &mut Option<Connection>,
    ) -> Result<Answer, ExchangeError> {
        let attempt = timeout(TIME_LIMIT, self.attempt(receiver, message, kept));
        attempt.await.unwrap_or(Err(ExchangeError::TimedOut))
    }

    async fn attempt(
        &self,
        receiver: &Receiver,
        message: &Message,
        kept: &mut Option<Connection>,
    ) -> Result<Answer, ExchangeError> {
        // A receiver may close an idle connection at any time, so a failure is tried again on a new one. The receiver
        // may then get the event twice.
        if let Some(open) = kept.take()
            && let Ok((answer, again)) = post(open, &receiver.url, message).await
        {
            *kept = again;
            return Ok(answer);
        }
        let (answer, again) = post(self.connect(receiver).await?, &receiver.url, message).await?;
        *kept = again;
        Ok(answer)
    }

    /// Returns the addresses of a receiver, all of them allowed.
    async fn addresses(&self, receiver: &Receiver) -> Result<Vec<IpAddr>, ExchangeError> {
        let addresses = match &receiver.url.host {
            Host::Address(address) => vec![*address],
            // RFC 6761 section 6.3: these names never reach a name server.
            Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Host::Name(name) => {
                self.dns.addresses(name).await.map_err(|error| ExchangeError::NoAddress(error.to_string()))?
            }
        };
        self.guard.check(receiver.registrant, receiver.url.is_tls, &addresses)?;
        Ok(addresses)
    }

    async fn connect(&self, receiver: &Receiver) -> Result<Connection, ExchangeError> {
        let url = &receiver.url;
        let mut last = ExchangeError::from(AddressRefused::None);
        let mut addresses = self.addresses(receiver).await?.into_iter().take(MAX_TRIED).peekable();
        while let Some(address) = addresses.next() {
            let limit = if addresses.peek().is_some() { CONNECT_LIMIT } else { TIME_LIMIT };
            match timeout(limit, TcpStream::connect(SocketAddr::new(address, url.port))).await {
                Ok(Ok(stream)) => return self.open(stream, url).await,
                Ok(Err(error)) => last = ExchangeError::NoConnection(error.to_string()),
                Err(_) => last = ExchangeError::NoConnection("the address does not answer".to_owned()),
            }
        }
        Err(last)
    }

    async fn open(&self, stream: TcpStream, url: &ReceiverUrl) -> Result<Connection, ExchangeError> {
        // A failure costs latency only.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = if url.is_tls {
            let connector = TlsConnector::from(self.tls()?);
            let stream = connector.connect(server_name(&url.host)?, stream).await;
            Box::new(stream.map_err(|error| ExchangeError::Tls(error.to_string()))?)
        } else {
            Box::new(stream)
        };
        let handshake = Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(no_answer)?;
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, task: task.abort_handle() })
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ExchangeError> {
        if let Some(tls) = self.tls.get() {
            return Ok(Arc::clone(tls));
        }
        let tls = mailapi_tls::client_config(&self.trust).map_err(|error| ExchangeError::Tls(error.to_string()))?;
        Ok(Arc::clone(self.tls.get_or_init(|| tls)))
    }
}

/// Returns the name that the certificate must have.
fn server_name(host: &Host) -> Result<ServerName<'static>, ExchangeError> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| ExchangeError::Tls(error.to_string())),
    }
}

fn no_answer(error: impl std::error::Error) -> ExchangeError {
    ExchangeError::NoAnswer(error.to_string())
}

/// Sends one request; returns the connection too if it can be used again.
async fn post(
    mut connection: Connection,
    url: &ReceiverUrl,
    message: &Message,
) -> Result<(Answer, Option<Connection>), ExchangeError> {
    let request = request(url, message).map_err(no_answer)?;
    connection.sender.ready().await.map_err(no_answer)?;
    let response = connection.sender.send_request(request).await.map_err(no_answer)?;
    let status = response.status().as_u16();
    let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = wait.and_then(|text| retry_after(text, message.at));
    let (excerpt, is_whole) = excerpt(response).await;
    let again = (is_whole && !connection.sender.is_closed()).then_some(connection);
    Ok((Answer { status, retry_after, excerpt }, again))
}

fn request(url: &ReceiverUrl, message: &Message) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    Request::post(&url.target)
        .header(HOST, &url.authority)
        .header(USER_AGENT, concat!("mailapi/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", message.at.as_seconds())
        .header("webhook-signature", &message.signatures)
        .body(Full::new(message.body.clone()))
}

/// Reads the beginning of a body, and returns whether that was all of it. The head decides the outcome, so an
/// incomplete body does not change it.
async fn excerpt(response: Response<Incoming>) -> (String, bool) {
    /// Time limit of the body after the head.
    const PATIENCE: Duration = Duration::from_secs(2);
    let (mut kept, mut read) = (Vec::new(), 0);
    let mut body = response.into_body();
    let whole = async {
        while let Some(frame) = body.frame().await {
            let Some(data) = frame.ok().map(hyper::body::Frame::into_data) else { return false };
            let data = data.unwrap_or_default();
            read += data.len();
            kept.extend(data.iter().take(MAX_KEPT_BYTES - kept.len()));
            if read > MAX_READ_BYTES {
                return false;
            }
        }
        true
    };
    let is_whole = timeout(PATIENCE, whole).await.unwrap_or(false);
    (printable(&kept), is_whole)
}

/// Returns bytes as text. Replaces control characters, because PostgreSQL cannot store NUL.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && !c.is_ascii_whitespace() { '\u{fffd}' } else { c }).collect()
}
