//! Dovecot's administration interface (the doveadm HTTP API), for what SMTP and IMAP cannot do.
//!
//! A request holds several commands, which Dovecot runs in order. Each response carries the tag of its command.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use mailapi_backend::{MailboxError, Purged};
use mailapi_model::{EmailAddress, Secret, SharedSecret};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::mailboxes::Purge;

/// Exit code of doveadm for an unknown user (`EX_NOUSER` of sysexits.h).
const NO_USER: u64 = 67;
/// Exit code of doveadm if there was nothing to act on, such as no session to kick (`EX_NOHOST`).
const NOTHING_FOUND: u64 = 68;
/// The path that is used if the URL has none.
const USUAL_PATH: &str = "/doveadm/v1";

/// Settings of Dovecot's administration interface. [`DoveadmSettings::new`] returns the defaults that the fields
/// list.
#[derive(Debug, Clone)]
pub struct DoveadmSettings {
    /// `http://host:port` or `https://host:port`. Without a path, `/doveadm/v1` is used.
    pub url: Uri,
    /// The value of `doveadm_api_key` in Dovecot's configuration.
    pub api_key: SharedSecret,
    /// Time limit for connecting. Default: 3 seconds.
    pub connect_timeout: Duration,
    /// Time limit for a request. A purge visits every message. Default: 1 minute.
    pub timeout: Duration,
    /// Whether to flush Dovecot's authentication cache when an account changes. Turn it off for Dovecot 2.4: version
    /// 2.4.1 panics at this command. Dovecot's default is no cache, so nothing is lost. Default: true.
    pub flush_auth_cache: bool,
    /// The largest accepted response in bytes. Default: 4 MiB, enough for about ten thousand folders.
    pub max_answer_bytes: usize,
}

impl DoveadmSettings {
    /// Parses an `http` or `https` URL.
    ///
    /// # Errors
    /// A text that shows a valid value.
    pub fn parse_url(text: &str) -> Result<Uri, String> {
        let url: Option<Uri> = text.parse().ok();
        let is_fine = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
        url.filter(is_fine).ok_or_else(|| format!("`{text}` is not a valid URL; use the form http://127.0.0.1:8081"))
    }

    /// Returns the default settings for this URL.
    #[must_use]
    pub fn new(url: Uri, api_key: Secret<String>) -> Self {
        Self {
            url,
            api_key: api_key.into(),
            connect_timeout: Duration::from_secs(3),
            timeout: Duration::from_mins(1),
            flush_auth_cache: true,
            max_answer_bytes: 4 << 20,
        }
    }
}

/// A client of Dovecot's administration interface.
pub struct Doveadm {
    settings: DoveadmSettings,
    tls: Arc<ClientConfig>,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DoveadmError {
    /// Dovecot has no such mailbox.
    #[error("Dovecot has no such mailbox")]
    NoSuchMailbox,
    /// The interface is unreachable, rejected the API key, or refused a command.
    #[error("Dovecot's administration interface: {0}")]
    Failed(String),
}

impl DoveadmError {
    fn failed(error: impl ToString) -> Self {
        Self::Failed(error.to_string())
    }
}

trait Blob: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Blob for T {}

impl Doveadm {
    /// Creates a client with these settings. `tls` is used for `https` URLs only.
    #[must_use]
    pub const fn new(settings: DoveadmSettings, tls: Arc<ClientConfig>) -> Self {
        Self { settings, tls }
    }

    /// Checks that the interface responds and accepts the API key.
    ///
    /// # Errors
    /// [`DoveadmError`].
    pub async fn check(&self) -> Result<(), DoveadmError> {
        self.run(&[]).await.map(drop)
    }

    /// Flushes the mailbox from Dovecot's authentication cache, so that a changed password, quota or state applies at
    /// once. Does nothing if [`DoveadmSettings::flush_auth_cache`] is off.
    ///
    /// # Errors
    /// [`DoveadmError`]. The change then applies when the cache entry expires.
    pub async fn flush_auth_cache(&self, mailbox: &EmailAddress) -> Result<(), DoveadmError> {
        if !self.settings.flush_auth_cache {
            return Ok(());
        }
        self.run(&[flush(mailbox)]).await.map(drop)
    }

    /// Ends the sessions of a removed mailbox, and flushes the cache as [`Doveadm::flush_auth_cache`] does. Sends a
    /// single request, because Dovecot starts a process for each.
    ///
    /// # Errors
    /// [`DoveadmError`].
    pub async fn let_go(&self, mailbox: &EmailAddress) -> Result<(), DoveadmError> {
        // Flush first: otherwise a new session could log in from the cache after the kick.
        let flush = self.settings.flush_auth_cache.then(|| flush(mailbox));
        let commands: Vec<_> = flush.into_iter().chain([kick(mailbox)]).collect();
        self.run(&commands).await.map(drop)
    }

    /// Removes all mail, recalculates the quota, and returns the number of folders and messages removed.
    async fn expunge_all(&self, mailbox: &EmailAddress) -> Result<Purged, DoveadmError> {
        let user = mailbox.as_str();
        let status = json!(["mailboxStatus", { "user": user, "field": ["messages"], "mailboxMask": ["*"] }, "status"]);
        let expunge = json!(["expunge", { "user": user, "query": ["mailbox", "*", "all"] }, "expunge"]);
        let answers = self.run(&[status, expunge, recalculation(mailbox)]).await?;
        let folders = answers.first().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let count = |folder: &Value| folder["messages"].as_str().and_then(|count| count.parse::<u64>().ok());
        Ok(Purged {
            folders: folders.len() as u64,
            messages: folders.iter().filter_map(count).fold(0, u64::saturating_add),
        })
    }

    /// Runs commands and returns their responses, in order.
    async fn run(&self, commands: &[Value]) -> Result<Vec<Value>, DoveadmError> {
        let answer = timeout(self.settings.timeout, self.ask(Value::from(commands).to_string()));
        let answer = answer.await.map_err(|_| DoveadmError::failed("it did not respond in time"))??;
        let answers = answers(&answer)?;
        if answers.len() == commands.len() {
            Ok(answers)
        } else {
            Err(DoveadmError::failed("it did not respond to every command"))
        }
    }

    async fn ask(&self, body: String) -> Result<Bytes, DoveadmError> {
        let stream = timeout(self.settings.connect_timeout, self.connect());
        let stream = stream.await.map_err(|_| DoveadmError::failed("the connection timed out"))??;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(DoveadmError::failed)?;
        // The task ends when the sender is dropped.
        let connection = tokio::spawn(connection);
        let response = sender.send_request(self.request(body)?).await.map_err(DoveadmError::failed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), self.settings.max_answer_bytes).collect().await;
        drop(sender);
        connection.abort();
        match status {
            StatusCode::OK => Ok(body.map_err(DoveadmError::failed)?.to_bytes()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(DoveadmError::failed("it rejected the API key")),
            status => Err(DoveadmError::failed(format!("it returned {status}"))),
        }
    }

    fn request(&self, body: String) -> Result<Request<Full<Bytes>>, DoveadmError> {
        let path = Some(self.settings.url.path()).filter(|path| *path != "/").unwrap_or(USUAL_PATH);
        let host = self.settings.url.authority().map(ToString::to_string).unwrap_or_default();
        let key = STANDARD.encode(self.settings.api_key.get().expose());
        let request = Request::post(path)
            .header(HOST, host)
            .header(AUTHORIZATION, format!("X-Dovecot-API {key}"))
            .header(CONTENT_TYPE, "application/json");
        request.body(Full::from(body)).map_err(DoveadmError::failed)
    }

    async fn connect(&self) -> Result<Box<dyn Blob>, DoveadmError> {
        const HTTP: u16 = 80;
        const HTTPS: u16 = 443;
        let url = &self.settings.url;
        let is_encrypted = url.scheme_str() == Some("https");
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_u16().unwrap_or(if is_encrypted { HTTPS } else { HTTP });
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(DoveadmError::failed)?;
        if !is_encrypted {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host).map_err(DoveadmError::failed)?;
        let encrypted = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        Ok(Box::new(encrypted.map_err(DoveadmError::failed)?))
    }
}

#[async_trait]
impl Purge for Doveadm {
    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        self.expunge_all(mailbox).await.map_err(|error| match error {
            DoveadmError::NoSuchMailbox => MailboxError::NoSuchMailbox,
            DoveadmError::Failed(reason) => MailboxError::Unavailable(reason),
        })
    }
}

fn flush(mailbox: &EmailAddress) -> Value {
    json!(["authCacheFlush", { "user": [mailbox.as_str()] }, "flush"])
}

fn kick(mailbox: &EmailAddress) -> Value {
    json!(["kick", { "mask": [mailbox.as_str()] }, "kick"])
}

fn recalculation(mailbox: &EmailAddress) -> Value {
    json!(["quotaRecalc", { "user": mailbox.as_str() }, "quota"])
}

/// Parses a response. "Nothing found" counts as success: there was nothing to do.
fn answers(bytes: &[u8]) -> Result<Vec<Value>, DoveadmError> {
    let nonsense = || DoveadmError::failed("its response is malformed");
    let Ok(Value::Array(answers)) = serde_json::from_slice(bytes) else { return Err(nonsense()) };
    let answer = |answer: Value| match (answer[0].as_str(), &answer[1]) {
        (Some("doveadmResponse"), content) => Ok(content.clone()),
        (Some("error"), error) => match error["exitCode"].as_u64() {
            Some(NO_USER) => Err(DoveadmError::NoSuchMailbox),
            Some(NOTHING_FOUND) => Ok(Value::Null),
            _ => {
                Err(DoveadmError::failed(format!("it rejected `{}`: {error}", answer[2].as_str().unwrap_or_default())))
            }
        },
        _ => Err(nonsense()),
    };
    answers.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refusal_differs_from_an_unknown_mailbox() {
        let refused = |text: &str| answers(text.as_bytes()).unwrap_err();
        assert_eq!(refused(r#"[["error",{"type":"exitCode", "exitCode":67},"expunge"]]"#), DoveadmError::NoSuchMailbox);
        for text in [
            "",
            "{}",
            "[[]]",
            "[3]",
            r#"[["error",{"type":"unknownMethod", "exitCode":0},"x"]]"#,
            // Dovecot omits a comma after an unknown command.
            r#"[["doveadmResponse",[],"d"]["error",{"type":"unknownMethod", "exitCode":0},"x"]]"#,
        ] {
            assert!(matches!(refused(text), DoveadmError::Failed(_)), "{text}");
        }
        assert_eq!(answers(b"[]"), Ok(vec![]));
        assert_eq!(answers(br#"[["error",{"type":"exitCode", "exitCode":68},"kick"]]"#), Ok(vec![Value::Null]));
        assert_eq!(answers(br#"[["doveadmResponse",[],"quota"]]"#), Ok(vec![json!([])]));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), text in r#"[\[\]{}a-z":,0-9]{0,64}"#,
            members in prop::collection::vec(r#""(doveadmResponse|error|[a-z]{0,3})"|\[\]|\{("(type|exitCode)":("(exitCode|unknownMethod)"|-?[0-9]{1,20}|null),?){0,2}\}|null|[0-9]{1,3}"#, 0..9),
            width in 1_usize..5,
        ) {
            let _ = answers(&bytes);
            let _ = answers(text.as_bytes());
            let answered: Vec<String> = members.chunks(width).map(|answer| format!("[{}]", answer.join(","))).collect();
            let _ = answers(format!("[{}]", answered.join(",").replace(",}", "}")).as_bytes());
        }
    }
}
