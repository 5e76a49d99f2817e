//! Commands valid before login: STARTTLS, LOGIN, AUTHENTICATE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::completion::Completion;
use super::effect::{Effect, Failure, Reply};
use super::{Expecting, Flow, Phase, Session};
use crate::secret::Password;
use crate::server::command::Command;

/// A command that waits for the host.
pub(super) enum Pending {
    Login,
}

pub(super) fn run(session: &mut Session, tag: &str, command: Command) -> Flow {
    match command {
        Command::StartTls if session.offers_starttls() => Flow::StartTls,
        Command::StartTls => Flow::Complete(Completion::bad("STARTTLS is not available")),
        Command::Login { .. } | Command::Authenticate { .. } if !session.takes_passwords() => {
            // PRIVACYREQUIRED invites the client to retry after STARTTLS (RFC 5530 section 3).
            Flow::Complete(Completion::no("PRIVACYREQUIRED", "TLS is required to log in"))
        }
        Command::Login { username, password } => login(username, password),
        Command::Authenticate { mechanism, .. } if mechanism != "PLAIN" => {
            Flow::Complete(Completion::no("CANNOT", "Authentication mechanism not supported"))
        }
        Command::Authenticate { initial_response: Some(response), .. } => {
            // `=` stands for an empty response (RFC 4959 section 3).
            plain(if response == "=" { "" } else { &response })
        }
        Command::Authenticate { .. } => {
            session.out.raw("+ ").crlf();
            Flow::Expect(Expecting::Credentials { tag: tag.to_owned() })
        }
        _ => Flow::Complete(Completion::bad("Log in first")),
    }
}

fn login(username: String, password: Password) -> Flow {
    Flow::Run(Effect::Login { username, password }, super::Pending::NotAuthenticated(Pending::Login))
}

/// Reads a base64 response of SASL PLAIN (RFC 4616): `[authzid] NUL authcid NUL passwd`.
pub(super) fn plain(response: &str) -> Flow {
    if response == "*" {
        return Flow::Complete(Completion::bad("Authentication cancelled"));
    }
    let decoded = STANDARD.decode(response).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(decoded) = decoded else {
        return Flow::Complete(Completion::bad("Invalid base64 or UTF-8"));
    };
    let parts: Vec<&str> = decoded.split('\0').collect();
    match parts.as_slice() {
        [authzid, username, password] if !username.is_empty() => {
            if !authzid.is_empty() && authzid != username {
                let text = "Authorization as another user is not supported";
                return Flow::Complete(Completion::no("AUTHORIZATIONFAILED", text));
            }
            login((*username).to_owned(), Password::new((*password).to_owned()))
        }
        _ => Flow::Complete(Completion::bad("Invalid credentials")),
    }
}

pub(super) fn finish(session: &mut Session, pending: Pending, result: Result<Reply, Failure>) -> Completion {
    let Pending::Login = pending;
    match result {
        Ok(Reply::Done) => {
            session.phase = Phase::Authenticated;
            session.failed_logins = 0;
            // Only now: an unauthenticated client must not make the server hold messages.
            session.reader.accept_messages();
            Completion::ok("Logged in").with_code(format!("CAPABILITY {}", session.capabilities()))
        }
        Ok(_) => Completion::server_bug(),
        Err(failure) => {
            session.failed_logins += u32::from(matches!(failure, Failure::LoginRefused | Failure::LoginLocked));
            Completion::from(failure)
        }
    }
}
