//! Recognizes other protocols by the first bytes of a connection.
//!
//! Without this, a session would answer each line of them with an error and go on. A PROXY header that is not expected
//! leaves the proxy's client one reply out of step; an HTTP request can carry commands in its body, written by a page that
//! a browser shows.

use mailapi_proxy::{V1_START, V2_SIGNATURE};

/// A protocol that a listener for mail does not speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The PROXY protocol, of a client that is no trusted proxy.
    Proxy,
    /// HTTP/1 or HTTP/2.
    Http,
    /// A TLS handshake where the session has begun already.
    Tls,
}

/// Methods of HTTP, and the word that begins HTTP/2 (RFC 9110 section 9, RFC 5789, RFC 9113 section 3.4). SMTP has none
/// of them. In IMAP they could be tags, so the target of the request decides too.
const HTTP_METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "DELETE", "PATCH", "TRACE", "PRI"];
/// A handshake record of TLS 1.0 to 1.3, and of SSL 3 (RFC 8446 section 5.1).
const TLS_START: &[u8] = &[0x16, 0x03];
/// More than the longest beginning that decides.
const MAX_BYTES: usize = 16;

impl Foreign {
    /// Returns the reason that the client reads.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Proxy => "PROXY headers are accepted from trusted proxies only",
            Self::Http => "This is a mail server, not a web server",
            Self::Tls => "TLS cannot begin here",
        }
    }

    /// Reads the beginning of a session. `Err` means that more bytes can still make it foreign.
    fn of(start: &[u8]) -> Result<Option<Self>, ()> {
        let begins = |whole: &[u8]| start.starts_with(whole);
        let may_begin = |whole: &[u8]| start.len() < whole.len() && whole.starts_with(start);
        let requests = || HTTP_METHODS.iter().flat_map(|method| ["/", "*", "http"].map(|to| format!("{method} {to}")));
        if begins(V1_START) || begins(V2_SIGNATURE) {
            return Ok(Some(Self::Proxy));
        }
        if begins(TLS_START) {
            return Ok(Some(Self::Tls));
        }
        if requests().any(|request| begins(request.as_bytes())) || begins(b"CONNECT ") {
            return Ok(Some(Self::Http));
        }
        let is_open = [V1_START, V2_SIGNATURE, TLS_START].into_iter().any(may_begin)
            || requests().any(|request| may_begin(request.as_bytes()));
        if is_open { Err(()) } else { Ok(None) }
    }
}

/// The first bytes of a session, in pieces of any size.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    /// `None` once they have decided.
    seen: Option<Vec<u8>>,
}

impl FirstBytes {
    pub(crate) const fn new() -> Self {
        Self { seen: Some(Vec::new()) }
    }

    /// Looks at bytes before the session gets them. Returns the protocol if it is a foreign one; the session must end
    /// then.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Option<Foreign> {
        let seen = self.seen.as_mut()?;
        let room = MAX_BYTES - seen.len();
        seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match Foreign::of(seen) {
            Err(()) => None,
            Ok(decided) => {
                self.seen = None;
                decided
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn look(pieces: &[&[u8]]) -> Option<Foreign> {
        let mut first = FirstBytes::new();
        pieces.iter().find_map(|piece| first.look(piece))
    }

    #[test]
    fn other_protocols_are_found_by_their_first_bytes() {
        for (bytes, foreign) in [
            (&b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\nEHLO x\r\n"[..], Foreign::Proxy),
            (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", Foreign::Proxy),
            (b"GET / HTTP/1.1\r\n", Foreign::Http),
            (b"POST /a HTTP/1.1\r\n", Foreign::Http),
            (b"OPTIONS * HTTP/1.1\r\n", Foreign::Http),
            (b"GET http://mx.example/ HTTP/1.1\r\n", Foreign::Http),
            (b"CONNECT mx.example:25 HTTP/1.1\r\n", Foreign::Http),
            (b"PRI * HTTP/2.0\r\n", Foreign::Http),
            (b"\x16\x03\x01\x02\0", Foreign::Tls),
        ] {
            assert_eq!(look(&[bytes]), Some(foreign), "{}", bytes.escape_ascii());
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(look(&single), Some(foreign), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn mail_programs_are_not_foreign() {
        for bytes in [
            &b"EHLO x\r\n"[..],
            b"\r\nEHLO x\r\n",
            b"\r\n\r\n\r\n",
            b"GET NOOP\r\n",
            b"P1 LOGIN a b\r\n",
            b"PROXY\r\n",
            b"a1 CAPABILITY\r\n",
            b"\x16\r\n",
        ] {
            assert_eq!(look(&[bytes]), None, "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_alike_however_they_are_split(
            bytes in "(PROXY |GET |PRI |POST|\r\n\r\n)?[a-zA-Z /*\r\n]{0,20}", piece in 1..20_usize
        ) {
            let pieces: Vec<_> = bytes.as_bytes().chunks(piece).collect();
            prop_assert_eq!(look(&[bytes.as_bytes()]), look(&pieces));
        }
    }
}
