//! AUTH PLAIN and AUTH LOGIN (RFC 4954, RFC 4616). The host verifies the resulting credentials.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::reply::Reply;
use crate::secret::{Credentials, Password};

/// Padding is optional: some clients omit it, and nothing is ambiguous without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    Login,
}

/// State of an exchange. It contains no password, so `Debug` may show it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    PlainResponse,
    LoginUsername,
    LoginPassword { username: String },
}

/// Result of a line of the exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Send this challenge and wait for the next line.
    Challenge(Reply, Exchange),
    /// The credentials are complete.
    Complete(Credentials),
    /// The exchange ended without credentials.
    Failed(Reply),
}

impl Exchange {
    /// Starts an exchange. `initial` is the initial response of the AUTH command, where `=` is an empty one
    /// (RFC 4954 section 4).
    pub(super) fn begin(mechanism: Mechanism, initial: Option<&str>) -> Progress {
        let exchange = match mechanism {
            Mechanism::Plain => Self::PlainResponse,
            Mechanism::Login => Self::LoginUsername,
        };
        match initial {
            None => Progress::Challenge(exchange.challenge(), exchange),
            Some("=") => exchange.respond(""),
            Some(response) => exchange.respond(response),
        }
    }

    fn challenge(&self) -> Reply {
        Reply::plain(
            334,
            match self {
                Self::PlainResponse => String::new(),
                Self::LoginUsername => BASE64.encode("Username:"),
                Self::LoginPassword { .. } => BASE64.encode("Password:"),
            },
        )
    }

    /// Processes the client's response to the last challenge.
    pub(super) fn respond(self, line: &str) -> Progress {
        if line == "*" {
            return Progress::Failed(Reply::new(501, (5, 7, 0), "Authentication cancelled"));
        }
        let Some(response) = decode(line) else {
            return Progress::Failed(Reply::new(501, (5, 5, 2), "Invalid base64 or UTF-8"));
        };
        match self {
            Self::PlainResponse => plain(&response),
            Self::LoginUsername => {
                let next = Self::LoginPassword { username: response };
                Progress::Challenge(next.challenge(), next)
            }
            Self::LoginPassword { username } => {
                Progress::Complete(Credentials { username, password: Password::new(response) })
            }
        }
    }
}

fn decode(line: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(line).ok()?).ok()
}

/// Parses `[authorization identity] NUL authentication identity NUL password` (RFC 4616 section 2).
fn plain(response: &str) -> Progress {
    let mut parts = response.split('\0');
    let (Some(authorization), Some(username), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Progress::Failed(Reply::new(501, (5, 5, 2), "Malformed PLAIN response"));
    };
    // Sending as another user is a matter of grants, not of authentication.
    if !authorization.is_empty() && authorization != username {
        return Progress::Failed(bad_credentials());
    }
    Progress::Complete(Credentials { username: username.to_owned(), password: Password::new(password) })
}

/// Returns the reply to a wrong password, which is the same for an unknown user (RFC 4954 section 6).
pub(super) fn bad_credentials() -> Reply {
    Reply::new(535, (5, 7, 8), "Authentication credentials invalid")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Responses of all kinds: valid PLAIN, too few or too many parts, truncated base64, and arbitrary text.
    fn response() -> impl Strategy<Value = String> {
        let parts =
            prop::collection::vec("[a-c]{0,2}|\\PC{0,8}", 0..5).prop_map(|parts| BASE64.encode(parts.join("\0")));
        let bytes = prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| BASE64.encode(bytes));
        let cut = (bytes.clone(), any::<prop::sample::Index>())
            .prop_map(|(text, at)| text[..at.index(text.len() + 1)].to_owned());
        prop_oneof![4 => parts, 1 => bytes, 1 => cut, 1 => "[ -~]{0,20}|\\PC{0,8}", 1 => "[*=]?"]
    }

    proptest! {
        #[test]
        fn any_exchange_ends_with_credentials_or_a_refusal(
            plain in any::<bool>(),
            initial in prop::option::of(response()),
            lines in prop::collection::vec(response(), 2),
        ) {
            let mechanism = if plain { Mechanism::Plain } else { Mechanism::Login };
            let mut progress = Exchange::begin(mechanism, initial.as_deref());
            for line in &lines {
                let Progress::Challenge(reply, exchange) = progress else { break };
                prop_assert_eq!(reply.code, 334);
                progress = exchange.respond(line);
            }
            match progress {
                Progress::Challenge(..) => prop_assert!(false, "no mechanism takes more than two responses"),
                Progress::Complete(_) => {}
                Progress::Failed(reply) => prop_assert!(reply.is_permanent()),
            }
        }
    }
}
