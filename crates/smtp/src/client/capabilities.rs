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
    /// Limits of the server (RFC 9422).
    pub limits: ServerLimits,
}

/// Limits that a server announces with LIMITS (RFC 9422 section 3). `None` means that it names none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// Transactions on one connection (MAILMAX).
    pub transactions: Option<usize>,
    /// Recipients in one transaction (RCPTMAX).
    pub recipients: Option<usize>,
    /// Domains of the recipients in one transaction (RCPTDOMAINMAX).
    pub domains: Option<usize>,
}

impl ServerLimits {
    /// Reads the lines of a reply to EHLO. Unknown and invalid limits are ignored (RFC 9422 section 3).
    fn of(lines: &str) -> Self {
        let mut limits = Self::default();
        for line in lines.lines().skip(1) {
            let mut words = line.split_ascii_whitespace();
            if words.next().is_some_and(|keyword| keyword.eq_ignore_ascii_case("LIMITS")) {
                words.for_each(|word| limits.set(word));
            }
        }
        limits
    }

    fn set(&mut self, word: &str) {
        let Some((name, value)) = word.split_once('=') else { return };
        // One to six digits, the first of which is not zero (RFC 9422 section 4).
        let is_valid = value.len() <= 6 && !value.starts_with('0') && value.bytes().all(|byte| byte.is_ascii_digit());
        let value = value.parse().ok().filter(|_| is_valid);
        match name.to_ascii_uppercase().as_str() {
            "MAILMAX" => self.transactions = value,
            "RCPTMAX" => self.recipients = value,
            "RCPTDOMAINMAX" => self.domains = value,
            _ => {}
        }
    }
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
            limits: ServerLimits::of(&reply.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn limits_are_read_and_invalid_ones_ignored() {
        let limits = |line: &str| Capabilities::of(&Reply::plain(250, format!("mx.example\n{line}"))).limits;
        let all = ServerLimits { transactions: Some(20), recipients: Some(2), domains: Some(1) };
        assert_eq!(limits("LIMITS MAILMAX=20 RCPTMAX=2 RCPTDOMAINMAX=1"), all);
        assert_eq!(limits("limits FOO=1 rcptmax=2"), ServerLimits { recipients: Some(2), ..ServerLimits::default() });
        for wrong in ["LIMITS", "LIMITS RCPTMAX", "LIMITS RCPTMAX=", "LIMITS RCPTMAX=0", "LIMITS RCPTMAX=02"] {
            assert_eq!(limits(wrong), ServerLimits::default(), "{wrong}");
        }
        for wrong in
            ["LIMITS RCPTMAX=1000000", "LIMITS RCPTMAX=+2", "LIMITS RCPTMAX=2x", "RCPTMAX=2", "XLIMITS RCPTMAX=2"]
        {
            assert_eq!(limits(wrong), ServerLimits::default(), "{wrong}");
        }
        assert_eq!(Capabilities::of(&Reply::plain(250, "LIMITS RCPTMAX=2")).limits, ServerLimits::default(), "a name");
    }

    proptest! {
        #[test]
        fn no_limit_is_zero_whatever_a_server_says(text in "(LIMITS |RCPTMAX|MAILMAX|=|[0-9]| |\n|\\PC){0,20}") {
            let ServerLimits { transactions, recipients, domains } = Capabilities::of(&Reply::plain(250, text)).limits;
            let all = [transactions, recipients, domains];
            prop_assert!(all.into_iter().flatten().all(|limit| (1..1_000_000).contains(&limit)));
        }
    }
}
