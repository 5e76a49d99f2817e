//! Status responses and their codes (RFC 3501 section 7.1, RFC 5530).

use super::capabilities::Capabilities;

/// The word of a status response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It worked, or information.
    Ok,
    /// It did not work, or a warning.
    No,
    /// The command was not understood, or the server is confused.
    Bad,
    /// A greeting: authenticated already.
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

/// A response code in brackets. Those that nobody here asks for are [`Code::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// What the server can do.
    Capability(Capabilities),
    /// UIDs of another validity mean other messages (RFC 3501 section 2.3.1.1).
    UidValidity(u32),
    /// The UID that the next message gets.
    UidNext(u32),
    /// The mailbox cannot be changed.
    ReadOnly,
    /// The password is wrong.
    AuthenticationFailed,
    /// The password is right, but not for acting as this user (RFC 5530 section 3).
    AuthorizationFailed,
    /// A subsystem is down at the moment.
    Unavailable,
    /// Too many connections, or another limit of the server.
    Limit,
    /// There is no such mailbox.
    NonExistent,
    /// The mailbox is in use and cannot be had at the moment.
    InUse,
    /// The server has a fault.
    ServerBug,
    /// Another, in upper case, without its arguments.
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
            _ => Self::Other(name),
        })
    }
}

/// A status response, tagged or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusResponse {
    /// Its word.
    pub status: Status,
    /// Its code, when it has one.
    pub code: Option<Code>,
    /// Its text for people, without control characters.
    pub text: String,
}

impl StatusResponse {
    /// Reads a line from the status word on. None when it does not begin with one.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        let status = Status::named(&line[..end])?;
        let rest = String::from_utf8_lossy(&line[end..]).replace(char::is_control, " ");
        let rest = rest.trim();
        let coded = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (code, text) = coded.map_or((None, rest), |(code, text)| (Some(Code::read(code)), text));
        Some(Self { status, code, text: text.trim().to_owned() })
    }

    /// True for OK.
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
        assert_eq!(StatusResponse::read(b"BYE [x] a\0b \xff").unwrap().text, "a b \u{fffd}");
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "(OK|NO|bye)?[ \\[\\]a-zA-Z0-9\\PC]{0,40}") {
            let _ = StatusResponse::read(line.as_bytes());
        }
    }
}
