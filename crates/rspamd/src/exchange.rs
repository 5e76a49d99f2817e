//! The HTTP exchange with rspamd.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mailapi_backend::read_bytes;
use mailapi_model::{Blob, EmailAddress, QueueId};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::RspamdAddress;
use crate::answer::{self, Verdict};

/// Time limit of a check. Other servers wait ten minutes for a reply (RFC 5321 section 4.5.3.2.6), and rspamd itself
/// gives a message eight seconds.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of checks at once. Others wait within their time limit.
const MAX_AT_ONCE: usize = 32;
/// Maximum size of an answer. One with the hosts of 10,000 links, rspamd's limit, is smaller.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Size of the pieces of a message that is not in memory.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of recipients in a request: rspamd limits the size of a request's head.
const MAX_RECIPIENTS: usize = 100;

/// Reason for a missing verdict.
#[derive(Debug, thiserror::Error)]
pub enum RspamdError {
    /// No connection to rspamd.
    #[error("no connection to rspamd: {0}")]
    NoConnection(#[source] io::Error),
    /// The connection failed, or its other end does not answer with HTTP.
    #[error("rspamd gave no HTTP answer: {0}")]
    NoAnswer(#[from] hyper::Error),
    /// rspamd refused the request.
    #[error("rspamd answered with status {0}")]
    Status(StatusCode),
    /// The answer is too long, or not a verdict.
    #[error("rspamd gave no valid answer: {0}")]
    Answer(String),
    /// There was no answer in time.
    #[error("rspamd gave no answer within {} seconds", TIME_LIMIT.as_secs())]
    TimedOut,
}

/// A message with its envelope.
#[derive(Debug, Clone)]
pub struct CheckedMail<'a> {
    /// The name of this server.
    pub hostname: &'a str,
    /// The address of the client.
    pub client: IpAddr,
    /// The name of that address in DNS which leads back to it, if there is one.
    pub client_host: Option<&'a str>,
    /// The name that the client gave in EHLO or HELO.
    pub client_name: &'a str,
    /// The reverse-path; empty for the null reverse-path.
    pub sender: &'a str,
    /// The recipients.
    pub recipients: &'a [EmailAddress],
    /// The queue id, which rspamd logs.
    pub queue_id: &'a QueueId,
    /// The message.
    pub message: Blob,
}

/// A client of rspamd.
pub struct Rspamd {
    address: RspamdAddress,
    places: Semaphore,
}

impl fmt::Debug for Rspamd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rspamd").field("address", &self.address).finish_non_exhaustive()
    }
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

impl Rspamd {
    /// Creates a client; it connects for each check.
    #[must_use]
    pub const fn new(address: RspamdAddress) -> Self {
        Self { address, places: Semaphore::const_new(MAX_AT_ONCE) }
    }

    /// Asks what to do with a message. Memory does not grow with the message.
    ///
    /// # Errors
    /// [`RspamdError`] if there is no verdict in time.
    pub async fn check(&self, mail: &CheckedMail<'_>) -> Result<Verdict, RspamdError> {
        let checked = async {
            // The semaphore is never closed.
            let _place = self.places.acquire().await;
            answer::parse(&self.exchange(self.check_request(mail)).await?)
        };
        timeout(TIME_LIMIT, checked).await.unwrap_or(Err(RspamdError::TimedOut))
    }

    /// Checks that rspamd answers.
    ///
    /// # Errors
    /// [`RspamdError`] if it does not.
    pub async fn ping(&self) -> Result<(), RspamdError> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let pinged = self.exchange(self.request(Request::get("/ping"), body));
        let answer = timeout(TIME_LIMIT, pinged).await.unwrap_or(Err(RspamdError::TimedOut))?;
        // Another server at this address has a page too, but not this one.
        if answer.trim_ascii().eq_ignore_ascii_case(b"pong") {
            Ok(())
        } else {
            Err(RspamdError::Answer("no reply to a ping".to_owned()))
        }
    }

    /// Sends one request and returns the body of the answer.
    async fn exchange(&self, request: Request<Body>) -> Result<Bytes, RspamdError> {
        let RspamdAddress { host, port } = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(RspamdError::NoConnection)?;
        // A failure costs latency only.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = AbortOnDrop(tokio::spawn(connection));
        let response = sender.send_request(request).await?;
        let body = body_of(response).await;
        drop(connection);
        body
    }

    fn request(&self, request: Builder, body: Body) -> Request<Body> {
        let request = request.header(HOST, self.address.to_string()).body(body);
        request.expect("the address is a valid field value, and the others are checked")
    }

    fn check_request(&self, mail: &CheckedMail<'_>) -> Request<Body> {
        let mut request = Request::post("/checkv2").header(CONTENT_LENGTH, mail.message.len());
        let client = mail.client.to_canonical().to_string();
        let fields = [
            ("Ip", client.as_str()),
            ("Helo", mail.client_name),
            ("Hostname", mail.client_host.unwrap_or("unknown")),
            ("From", mail.sender),
            ("Queue-Id", &mail.queue_id.0),
            ("MTA-Name", mail.hostname),
        ];
        let recipients = mail.recipients.iter().take(MAX_RECIPIENTS).map(|one| ("Rcpt", one.as_str()));
        for (name, value) in fields.into_iter().chain(recipients) {
            // What a client gave may contain control characters, which no field can have.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                request = request.header(name, value);
            }
        }
        self.request(request, streamed(mail.message.clone()))
    }
}

/// Ends the task of a connection, also when the check is cancelled.
struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns a message as a body: shared if it is in memory, and otherwise read in pieces.
fn streamed(message: Blob) -> Body {
    let rest = match message.into_bytes() {
        Ok(bytes) => return Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        Err(elsewhere) => elsewhere,
    };
    let pieces = stream::try_unfold(rest, async |rest: Blob| {
        if rest.is_empty() {
            return Ok(None);
        }
        let piece = read_bytes(&rest, 0..PIECE_BYTES).await?;
        let rest = rest.slice(piece.len()..rest.len());
        Ok(Some((Frame::data(piece), rest)))
    });
    StreamBody::new(pieces).boxed_unsync()
}

async fn body_of(response: Response<hyper::body::Incoming>) -> Result<Bytes, RspamdError> {
    if response.status() != StatusCode::OK {
        return Err(RspamdError::Status(response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| RspamdError::Answer(error.to_string()))
}
