//! The extensions in a server's reply to EHLO.

use smtp_proto::{
    AUTH_PLAIN, EXT_8BIT_MIME, EXT_DSN, EXT_PIPELINING, EXT_SIZE, EXT_SMTP_UTF8, EXT_START_TLS, EhloResponse,
};

use crate::reply::Reply;

/// The extensions that the client uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Commands may be sent before the earlier ones are answered (RFC 2920).
    pub pipelining: bool,
    /// Bodies may hold bytes above 127 (RFC 6152).
    pub eight_bit_mime: bool,
    /// Addresses and headers may be international (RFC 6531).
    pub smtputf8: bool,
    /// Delivery status notifications can be requested (RFC 3461).
    pub dsn: bool,
    /// TLS can be started (RFC 3207).
    pub starttls: bool,
    /// AUTH PLAIN is offered (RFC 4954, RFC 4616).
    pub auth_plain: bool,
    /// MAIL may declare the message size (RFC 1870).
    pub size: bool,
}

impl Capabilities {
    /// Parses the reply to EHLO. A malformed reply offers nothing.
    pub(super) fn of(reply: &Reply) -> Self {
        let encoded = Reply::plain(250, reply.text.as_str()).encode();
        let response = EhloResponse::parse(&mut encoded.iter()).unwrap_or_default();
        let offers = |extension: u32| response.capabilities & extension != 0;
        Self {
            pipelining: offers(EXT_PIPELINING),
            eight_bit_mime: offers(EXT_8BIT_MIME),
            smtputf8: offers(EXT_SMTP_UTF8),
            dsn: offers(EXT_DSN),
            starttls: offers(EXT_START_TLS),
            auth_plain: response.auth_mechanisms & AUTH_PLAIN != 0,
            size: offers(EXT_SIZE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_read_whatever_else_the_server_offers() {
        let text = "mx.example\nPIPELINING\nSIZE\nFOO bar\nauth login plain\n8bitmime";
        let capabilities = Capabilities::of(&Reply::plain(250, text));
        assert_eq!(
            capabilities,
            Capabilities {
                pipelining: true,
                eight_bit_mime: true,
                auth_plain: true,
                size: true,
                ..Capabilities::default()
            }
        );
        let nothing = Capabilities::of(&Reply::plain(250, ""));
        assert_eq!(nothing, Capabilities::default());
    }
}
