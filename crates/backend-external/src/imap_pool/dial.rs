//! Connects to the server and logs in as the master user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mailapi_backend::MailboxError;
use mailapi_imap::Password;
use mailapi_imap::client::{Code, Command, Status, StatusResponse};
use mailapi_model::{ByteBudget, EmailAddress};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::connection::{ANSWER_ROOM, ImapConnection};
use super::error::ImapError;
use super::settings::ImapSettings;
use super::stream;
use crate::breaker::Breaker;
use crate::tls::TlsMode;

/// Opens connections.
pub(super) struct Dialer {
    settings: ImapSettings,
    tls: Arc<ClientConfig>,
    breaker: Breaker,
    /// Memory for answers of the server, shared by all connections.
    room: Arc<ByteBudget<()>>,
    openings: Arc<AtomicU64>,
    /// Set after the first successful login. From then on a refusal without a code concerns the mailbox.
    master_is_known: AtomicBool,
}

/// What a refused login means.
enum Refused {
    Mailbox,
    Master(String),
    Temporarily(String),
}

impl Dialer {
    pub(super) fn new(settings: ImapSettings, tls: Arc<ClientConfig>) -> Self {
        let breaker = Breaker::new(settings.failures_until_pause, settings.pause, settings.max_pause);
        let (room, openings) = (ByteBudget::new(ANSWER_ROOM, 1), Arc::default());
        Self { breaker, settings, tls, room, openings, master_is_known: AtomicBool::new(false) }
    }

    /// Returns a new connection that acts as the mailbox.
    pub(super) async fn dial(&self, mailbox: &EmailAddress) -> Result<ImapConnection, MailboxError> {
        let attempt = self.breaker.attempt().map_err(MailboxError::Unavailable)?;
        let mut connection = match self.reach().await {
            Ok(connection) => connection,
            Err(reason) => {
                attempt.failed(&reason);
                return Err(MailboxError::Unavailable(reason));
            }
        };
        let login = timeout(self.settings.login_timeout, self.log_in(&mut connection, mailbox));
        match login.await {
            Ok(Ok(())) => {
                self.master_is_known.store(true, Ordering::Relaxed);
                attempt.succeeded();
                Ok(connection)
            }
            Ok(Err(ImapError::Refused(status))) => Err(match self.refused(status) {
                // The server works; it only has no such mailbox.
                Refused::Mailbox => {
                    attempt.succeeded();
                    MailboxError::NoSuchMailbox
                }
                Refused::Master(reason) => {
                    tracing::error!(%reason, "the IMAP server refused the master login");
                    attempt.refused(self.settings.refused_pause, &reason);
                    MailboxError::Unavailable(reason)
                }
                Refused::Temporarily(reason) => {
                    attempt.succeeded();
                    MailboxError::Unavailable(reason)
                }
            }),
            Ok(Err(error)) => {
                let error = MailboxError::from(error);
                attempt.failed(&error.to_string());
                Err(error)
            }
            Err(_) => {
                attempt.failed("the login took too long");
                Err(MailboxError::Unavailable("the login took too long".to_owned()))
            }
        }
    }

    /// Checks that the server can be reached and has not rejected the master user. Does not log in: each failed login
    /// makes the server slower for all.
    pub(super) async fn check(&self) -> Result<(), String> {
        if let Some(reason) = self.breaker.pause_reason() {
            return Err(reason);
        }
        let mut connection = self.reach().await?;
        // After the greeting, the server may close the connection in any way.
        let farewell = connection.run(Command::logout(), |_| {});
        let _ = timeout(self.settings.connect_timeout, farewell).await;
        Ok(())
    }

    /// Opens a connection in time.
    async fn reach(&self) -> Result<ImapConnection, String> {
        let greeted = greeted(&self.settings, &self.tls, &self.room, &self.openings);
        let greeted = timeout(self.settings.connect_timeout, greeted).await;
        let outcome =
            greeted.unwrap_or_else(|_| Err(ImapError::Broken("the server did not respond in time".to_owned())));
        outcome.map_err(|error| match MailboxError::from(error) {
            MailboxError::Unavailable(reason) => format!("the IMAP server cannot be reached: {reason}"),
            other => other.to_string(),
        })
    }

    async fn log_in(&self, connection: &mut ImapConnection, mailbox: &EmailAddress) -> Result<(), ImapError> {
        log_in(connection, &self.settings, Some(mailbox.as_str())).await
    }

    fn refused(&self, status: StatusResponse) -> Refused {
        let reason = format!("the IMAP server refused the login: {}", status.text);
        match status.code {
            Some(Code::AuthorizationFailed | Code::NonExistent) => Refused::Mailbox,
            Some(Code::AuthenticationFailed) => Refused::Master(reason),
            Some(Code::Unavailable | Code::Limit | Code::InUse | Code::ServerBug) => Refused::Temporarily(reason),
            _ if status.status == Status::Bad => Refused::Temporarily(reason),
            _ if self.master_is_known.load(Ordering::Relaxed) => Refused::Mailbox,
            _ => Refused::Master(reason),
        }
    }
}

/// Connects, encrypts, and reads the greeting and the capabilities.
pub(super) async fn greeted(
    settings: &ImapSettings,
    config: &Arc<ClientConfig>,
    room: &Arc<ByteBudget<()>>,
    openings: &Arc<AtomicU64>,
) -> Result<ImapConnection, ImapError> {
    let ImapSettings { host, port, tls, .. } = settings;
    let stream = stream::connect(host, *port).await?;
    let mut connection = ImapConnection::new(stream, settings, room, Arc::clone(openings));
    if *tls == TlsMode::Implicit {
        connection = connection.encrypt(host, Arc::clone(config)).await?;
    }
    let greeting = connection.greeting().await?;
    if greeting.status != Status::Ok {
        // PREAUTH would be a session of an unknown user.
        return Err(ImapError::Broken(format!("unexpected greeting {:?}: {}", greeting.status, greeting.text)));
    }
    ask_capabilities(&mut connection).await?;
    if *tls == TlsMode::StartTls {
        if !connection.capabilities().has("STARTTLS") {
            return Err(ImapError::Broken("the server does not offer STARTTLS".to_owned()));
        }
        connection.run(Command::start_tls(), |_| {}).await?;
        connection = connection.encrypt(host, Arc::clone(config)).await?;
        // Capabilities from before STARTTLS are not authenticated (RFC 3501 section 6.2.1).
        ask_capabilities(&mut connection).await?;
    }
    Ok(connection)
}

/// Logs in as the user of the settings, on behalf of another one if there is any: by SASL PLAIN with an authorization
/// identity, otherwise by LOGIN.
pub(super) async fn log_in(
    connection: &mut ImapConnection,
    settings: &ImapSettings,
    on_behalf_of: Option<&str>,
) -> Result<(), ImapError> {
    let password = Password::new(settings.master_password.get().into_inner());
    let (capabilities, user) = (connection.capabilities(), &settings.master_user);
    let command = if capabilities.has("AUTH=PLAIN") {
        Command::authenticate_plain(on_behalf_of.unwrap_or_default(), user, &password, &capabilities)
    } else if capabilities.has("LOGINDISABLED") {
        return Err(ImapError::Broken("the server does not allow password logins; it may require TLS".to_owned()));
    } else {
        let both = on_behalf_of.map(|other| format!("{other}{}{user}", settings.master_separator));
        Command::login(both.as_ref().unwrap_or(user), &password)
    };
    connection.run(command, |_| {}).await?;
    ask_capabilities(connection).await
}

async fn ask_capabilities(connection: &mut ImapConnection) -> Result<(), ImapError> {
    if !connection.knows_capabilities() {
        connection.run(Command::capability(), |_| {}).await?;
    }
    Ok(())
}
