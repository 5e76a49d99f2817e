//! Replies: a code, an enhanced status code and text (RFC 5321 section 4.2, RFC 3463).
//!
//! The server writes this type and the client parses it.

use std::fmt;

/// An enhanced mail system status code, `class.subject.detail` (RFC 3463 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnhancedCode {
    /// 2 for success, 4 for a transient and 5 for a permanent failure.
    pub class: u8,
    /// Topic of the code, 0 to 999: 1 is addressing, 7 is policy.
    pub subject: u16,
    /// The exact condition within the subject, 0 to 999.
    pub detail: u16,
}

impl EnhancedCode {
    /// Parses `digit.digits.digits`, with at most three digits in each number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let class = match parts.next()? {
            "2" => 2,
            "4" => 4,
            "5" => 5,
            _ => return None,
        };
        let subject = three_digits(parts.next()?)?;
        let detail = three_digits(parts.next()?)?;
        parts.next().is_none().then_some(Self { class, subject, detail })
    }
}

fn three_digits(text: &str) -> Option<u16> {
    let short = (1..=3).contains(&text.len());
    (short && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

impl From<(u8, u16, u16)> for EnhancedCode {
    fn from((class, subject, detail): (u8, u16, u16)) -> Self {
        Self { class, subject, detail }
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// Maximum length of a reply line in octets, with the code and CRLF (RFC 5321 section 4.5.3.1.5).
const MAX_LINE_BYTES: usize = 512;

/// One SMTP reply. `Display` formats it on one line, as stored for a recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The three-digit reply code, 200 to 599.
    pub code: u16,
    /// The enhanced code. The greeting and the replies to `EHLO` and `HELO`, `334` and `354` have none (RFC
    /// 2034 section 4).
    pub enhanced: Option<EnhancedCode>,
    /// The text without the codes; `\n` separates the lines of a multi-line reply.
    pub text: String,
}

impl Reply {
    /// Returns a reply with an enhanced status code.
    pub fn new(code: u16, enhanced: (u8, u16, u16), text: impl Into<String>) -> Self {
        Self { code, enhanced: Some(enhanced.into()), text: text.into() }
    }

    /// Returns a reply of a kind that has no enhanced status code.
    pub fn plain(code: u16, text: impl Into<String>) -> Self {
        Self { code, enhanced: None, text: text.into() }
    }

    /// Returns whether the command succeeded (2xx).
    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// Returns whether the same command may succeed later (4xx).
    pub fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    /// Returns whether the failure is permanent (5xx).
    pub fn is_permanent(&self) -> bool {
        self.code / 100 == 5
    }

    /// Appends the reply in wire format, each line ending in CRLF.
    ///
    /// Control characters in the text become spaces, so that no text can forge another reply. Other characters beyond
    /// ASCII become `?`: not every client may get them (RFC 6531 section 3.7.4.2). A long line is cut. The text may
    /// repeat words of the client, so these rules have their home here.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let mut lines = self.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let end = out.len() + MAX_LINE_BYTES - b"\r\n".len();
            let separator = if lines.peek().is_some() { '-' } else { ' ' };
            out.extend_from_slice(format!("{:03}{separator}", self.code).as_bytes());
            if let Some(enhanced) = self.enhanced {
                out.extend_from_slice(format!("{enhanced} ").as_bytes());
            }
            out.extend(line.chars().map(|character| match character {
                ' '..='~' => character as u8,
                _ if character.is_control() => b' ',
                _ => b'?',
            }));
            out.truncate(end);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Returns the reply in wire format.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + 32);
        self.encode_into(&mut out);
        out
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced {
            write!(formatter, " {enhanced}")?;
        }
        for line in self.text.split('\n').filter(|line| !line.is_empty()) {
            write!(formatter, " {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_cannot_forge_a_second_reply() {
        let reply = Reply::new(550, (5, 1, 1), "no\r250 2.0.0 yes\u{0}");
        assert_eq!(reply.encode(), b"550 5.1.1 no 250 2.0.0 yes \r\n");
    }

    #[test]
    fn a_line_is_ascii_and_no_longer_than_clients_must_accept() {
        let reply = Reply::new(555, (5, 5, 4), format!("Parameter É{}\nshort", "x".repeat(600)));
        let written = reply.encode();
        assert!(written.starts_with(b"555-5.5.4 Parameter ?xx") && written.ends_with(b"x\r\n555 5.5.4 short\r\n"));
        assert_eq!(written.iter().position(|&byte| byte == b'\n'), Some(MAX_LINE_BYTES - 1));
    }

    #[test]
    fn every_line_of_a_multi_line_reply_carries_both_codes() {
        let reply = Reply::new(550, (5, 7, 1), "first\nsecond");
        assert_eq!(reply.encode(), b"550-5.7.1 first\r\n550 5.7.1 second\r\n");
        assert_eq!(reply.to_string(), "550 5.7.1 first second");
    }

    #[test]
    fn an_enhanced_code_has_three_short_numbers() {
        assert_eq!(EnhancedCode::parse("5.1.10"), Some((5, 1, 10).into()));
        for wrong in ["", "5", "5.1", "3.1.1", "5.1.1000", "5.1.1.1", "5..1", "5.+1.1"] {
            assert_eq!(EnhancedCode::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_enhanced_code_is_read_or_refused_and_round_trips(text in "[245][.]{1,2}[0-9]{1,4}[.][0-9]{0,4}|[0-9.+ ]{0,12}|\\PC{0,9}") {
            if let Some(code) = EnhancedCode::parse(&text) {
                prop_assert_eq!(EnhancedCode::parse(&code.to_string()), Some(code));
            }
        }

        #[test]
        fn no_text_makes_two_replies_of_one(text in "(\\PC|[\\x00-\\x1f\\x7f]){0,60}|x{490,530}\\PC{0,4}") {
            let lines = text.split('\n').count();
            let written = Reply::new(550, (5, 1, 1), text).encode();
            prop_assert!(written.ends_with(b"\r\n"));
            prop_assert!(written.split(|byte| *byte == b'\n').all(|line| line.len() < MAX_LINE_BYTES && line.is_ascii()));
            prop_assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), lines);
            prop_assert_eq!(written.iter().filter(|byte| **byte == b'\r').count(), lines);
        }
    }
}
