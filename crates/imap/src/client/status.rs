//! Status responses and their codes (RFC 3501 section 7.1, RFC 5530).

use super::capabilities::Capabilities;

/// The word of a status response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success, or information.
    Ok,
    /// Failure, or a warning.
    No,
    /// A protocol error, or an internal error of the server.
    Bad,
    /// A greeting of an already authenticated connection.
    PreAuth,
    /// The server closes the connection.
    Bye,
}

impl Status {
    fn named(word: &[u8]) -> Option<Self> {
        let words =
            [("OK", Self::Ok), ("NO", Self::No), ("BAD", Self::Bad), ("PREAUTH", Self::PreAuth), ("BYE", Self::Bye)];
        words.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, status)| status)
    }
}

/// A response code in brackets. Codes that the client does not use are [`Code::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// The server's capabilities.
    Capability(Capabilities),
    /// UIDVALIDITY: UIDs of another validity name other messages (RFC 3501 section 2.3.1.1).
    UidValidity(u32),
    /// The UID of the next message.
    UidNext(u32),
    /// The mailbox is read-only.
    ReadOnly,
    /// Wrong user name or password.
    AuthenticationFailed,
    /// The password is right, but the user may not act as the requested one (RFC 5530 section 3).
    AuthorizationFailed,
    /// A subsystem of the server is temporarily unavailable.
    Unavailable,
    /// A limit of the server is reached, such as the number of connections.
    Limit,
    /// The mailbox does not exist.
    NonExistent,
    /// The mailbox is in use and temporarily unavailable.
    InUse,
    /// An internal error of the server.
    ServerBug,
    /// The mailbox is full.
    OverQuota,
    /// The message is larger than the server accepts (RFC 4469 section 4.2).
    TooBig,
    /// UIDVALIDITY and UID of an appended message (RFC 4315 section 3).
    AppendUid(u32, u32),
    /// Any other code in upper case, without its arguments.
    Other(String),
}

impl Code {
    fn read(text: &str) -> Self {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let name = name.to_ascii_uppercase();
        let number = || arguments.trim().parse().ok();
        let numbered = match name.as_str() {
            "UIDVALIDITY" => number().map(Self::UidValidity),
            "UIDNEXT" => number().map(Self::UidNext),
            "APPENDUID" => append_uid(arguments),
            _ => None,
        };
        numbered.unwrap_or_else(|| match name.as_str() {
            "CAPABILITY" => Self::Capability(Capabilities::read(arguments)),
            "READ-ONLY" => Self::ReadOnly,
            "AUTHENTICATIONFAILED" => Self::AuthenticationFailed,
            "AUTHORIZATIONFAILED" => Self::AuthorizationFailed,
            "UNAVAILABLE" => Self::Unavailable,
            "LIMIT" => Self::Limit,
            "NONEXISTENT" => Self::NonExistent,
            "INUSE" => Self::InUse,
            "SERVERBUG" => Self::ServerBug,
            "OVERQUOTA" => Self::OverQuota,
            "TOOBIG" => Self::TooBig,
            _ => Self::Other(name),
        })
    }
}

/// Reads the numbers of one appended message. Neither is 0, and each consists of digits only.
fn append_uid(arguments: &str) -> Option<Code> {
    let (uid_validity, uid) = arguments.trim().split_once(' ')?;
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number > 0)
    };
    Some(Code::AppendUid(number(uid_validity)?, number(uid)?))
}

/// A status response, tagged or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusResponse {
    /// The status.
    pub status: Status,
    /// The response code, if any.
    pub code: Option<Code>,
    /// The human-readable text, without control characters.
    pub text: String,
}

impl StatusResponse {
    /// Reads a line that begins with a status; `None` for any other line.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let status = Status::named(&line[..end])?;
        let rest = String::from_utf8_lossy(&line[end..]).replace(char::is_control, " ");
        let rest = rest.trim();
        let coded = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (code, text) = coded.map_or((None, rest), |(code, text)| (Some(Code::read(code)), text));
        Some(Self { status, code, text: text.trim().to_owned() })
    }

    /// Whether the status is OK.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_status_is_none() {
        for line in ["", "OKAY", " OK", "1 EXISTS"] {
            assert_eq!(StatusResponse::read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn codes_are_read_and_unfinished_ones_are_text() {
        let code = |line: &str| StatusResponse::read(line.as_bytes()).unwrap().code;
        assert_eq!(code("OK [UIDVALIDITY 7] valid"), Some(Code::UidValidity(7)));
        assert_eq!(code("no [authorizationfailed] who?"), Some(Code::AuthorizationFailed));
        assert_eq!(code("NO [UIDVALIDITY seven] odd"), Some(Code::Other("UIDVALIDITY".into())));
        assert_eq!(code("OK [PERMANENTFLAGS (\\Seen \\*)] x"), Some(Code::Other("PERMANENTFLAGS".into())));
        assert_eq!(code("OK [open"), None);
        assert_eq!(code("OK [APPENDUID 38505 3955] done"), Some(Code::AppendUid(38505, 3955)));
        for odd in ["38505", "38505 0", "0 1", "1 +2", "1 2:3", "1 2 3", "1 4294967296"] {
            assert_eq!(code(&format!("OK [APPENDUID {odd}] done")), Some(Code::Other("APPENDUID".into())), "{odd}");
        }
        assert_eq!(StatusResponse::read(b"BYE [x] a\0b \xff").unwrap().text, "a b \u{fffd}");
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "(OK|NO|bye)?[ \\[\\]a-zA-Z0-9\\PC]{0,40}") {
            let _ = StatusResponse::read(line.as_bytes());
        }

        #[test]
        fn any_place_of_an_appended_message_is_read(validity in 1_u32.., uid in 1_u32.., noise in "[ -~]{0,12}") {
            let read = |text: &str| StatusResponse::read(format!("OK [APPENDUID {text}] done").as_bytes()).unwrap().code;
            prop_assert_eq!(read(&format!("{validity} {uid}")), Some(Code::AppendUid(validity, uid)));
            if let Some(Code::AppendUid(validity, uid)) = read(&noise) {
                prop_assert!(validity > 0 && uid > 0);
            }
        }
    }
}
