//! The text that a notice has for people. Servers that write no machine-readable report name their recipients there: as
//! qmail (QSBMF), Exim (`X-Failed-Recipients`), dma, Courier and many others do. It also has reasons that a report omits.
//!
//! A text alone proves nothing. Callers know who the recipients of the message were, and that the notice came to its
//! return address.

use mailapi_model::{EmailAddress, EnhancedCode};

/// Bytes of the text that are read.
const MAX_BYTES: usize = 256 * 1024;
/// Characters of a reason.
const MAX_REASON: usize = 1_000;
/// Failures that one text can name.
const MAX_FAILURES: usize = 1_000;

/// What follows is a copy of the message, whose words say nothing about its delivery.
const COPIES: [&str; 8] = [
    "--- below this line is a copy",
    "--- this is a copy",
    "---- this is a copy",
    "--- the body of the message is",
    "original message follows",
    "message headers follow",
    "return-path:",
    "received:",
];

/// Words of a notice about a message that is still being delivered.
const DELAYS: [&str; 10] = [
    "will be retried",
    "will retry",
    "will keep trying",
    "will continue to",
    "attempts will continue",
    "still being retried",
    "warning only",
    "not yet been delivered",
    "delivery is delayed",
    "no action is required",
];

/// A text, in paragraphs of lines.
pub(super) struct NoticeText {
    paragraphs: Vec<Vec<String>>,
    is_delay: bool,
}

/// A recipient that a text names as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedFailure {
    pub(super) recipient: EmailAddress,
    pub(super) reason: String,
}

impl NoticeText {
    pub(super) fn of(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        let mut paragraphs = vec![Vec::new()];
        for line in text.lines() {
            let lower = line.trim_start().to_ascii_lowercase();
            if COPIES.iter().any(|copy| lower.starts_with(copy) || lower.trim_start_matches('-').trim_start() == *copy)
            {
                break;
            }
            if line.trim().is_empty() {
                paragraphs.push(Vec::new());
            } else if let Some(paragraph) = paragraphs.last_mut() {
                paragraph.push(line.to_owned());
            }
        }
        paragraphs.retain(|paragraph| !paragraph.is_empty());
        let words = paragraphs.concat().join(" ").to_ascii_lowercase();
        let is_delay = DELAYS.iter().any(|delay| words.contains(delay));
        Self { paragraphs, is_delay }
    }

    /// Returns the failures that the text proves: an address beside a permanent reply, or in a paragraph of its own as
    /// qmail writes it. `failed` are addresses that a header field calls failed.
    pub(super) fn failures(&self, failed: &[EmailAddress]) -> Vec<NamedFailure> {
        let mut found: Vec<NamedFailure> = Vec::new();
        let mut add = |recipient: EmailAddress, reason: String| {
            if found.len() < MAX_FAILURES && !found.iter().any(|known| known.recipient == recipient) {
                found.push(NamedFailure { recipient, reason });
            }
        };
        for recipient in failed {
            add(recipient.clone(), self.reason_of(recipient));
        }
        if self.is_delay {
            return found;
        }
        let is_qmail = self.paragraphs.iter().flatten().take(3).any(|line| line.starts_with("Hi. This is"));
        for paragraph in &self.paragraphs {
            let reason = said(paragraph);
            let is_listed = is_qmail && paragraph[0].starts_with('<') && paragraph[0].trim_end().ends_with(">:");
            if is_listed || reply_class(paragraph) == Some(5) {
                for recipient in addresses(&paragraph.join(" ")) {
                    add(recipient, reason.clone());
                }
            }
        }
        found
    }

    /// Returns what the text says about a recipient; empty if it does not name it.
    pub(super) fn reason_of(&self, recipient: &EmailAddress) -> String {
        let names = |paragraph: &&Vec<String>| addresses(&paragraph.join(" ")).any(|named| named == *recipient);
        let about: Vec<_> = self.paragraphs.iter().filter(names).collect();
        // Of several paragraphs, one with a reply says most.
        let best = about.iter().find(|paragraph| reply_class(paragraph).is_some()).or(about.first());
        best.map(|paragraph| said(paragraph)).unwrap_or_default()
    }

    /// Returns the address behind a list that Exim expanded: `bad@far.example` before `(generated from list@…)`.
    pub(super) fn generated_from(&self, list: &EmailAddress) -> Option<EmailAddress> {
        self.paragraphs.iter().find_map(|paragraph| {
            let place = paragraph.iter().position(|line| {
                let origin = line.trim().strip_prefix("(generated from ");
                origin.is_some_and(|origin| addresses(origin).any(|named| named == *list))
            })?;
            addresses(&paragraph[..place].concat()).last()
        })
    }
}

/// Returns a paragraph on one line, from the line on that names an address.
fn said(paragraph: &[String]) -> String {
    let start = paragraph.iter().position(|line| line.contains('@')).unwrap_or_default();
    let words: Vec<&str> = paragraph[start..].iter().flat_map(|line| line.split_whitespace()).collect();
    words.join(" ").chars().take(MAX_REASON).collect()
}

fn addresses(text: &str) -> impl Iterator<Item = EmailAddress> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '(' | ')' | '[' | ']' | ',' | ';' | '"' | '\'');
    let words = text.split(ends).map(|word| word.trim_matches(|c| matches!(c, ':' | '.' | '*')));
    let words = words.map(|word| word.rsplit_once(':').map_or(word, |(_, address)| address));
    words.filter(|word| word.contains('@')).filter_map(|word| word.parse().ok())
}

/// Returns the enhanced code beside a reply in a text (RFC 2034), as in `550 5.1.1 No such user` or `(#5.1.1)`.
pub(super) fn enhanced_code(text: &str) -> Option<EnhancedCode> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_failure = |code: &EnhancedCode| matches!(code.class, 4 | 5) && code.subject <= 7;
    let code = |word: &str| trimmed(word).parse::<EnhancedCode>().ok().filter(is_failure);
    let behind_reply = |place: usize| {
        let word = words[place];
        // `550-5.1.1` is one word.
        let joined = word.split_once('-').filter(|(reply, _)| is_reply(reply)).and_then(|(_, word)| code(word));
        joined.or_else(|| Some(words.get(place + 1)?).filter(|_| is_reply(word)).and_then(|next| code(next)))
    };
    let marked = || words.iter().find(|word| trimmed_start(word).starts_with('#')).and_then(|word| code(word));
    (0..words.len()).find_map(behind_reply).or_else(marked).or_else(|| words.first().and_then(|word| code(word)))
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn trimmed_start(word: &str) -> &str {
    word.trim_start_matches(['(', '['])
}

fn is_reply(word: &str) -> bool {
    let word = trimmed(word);
    word.len() == 3 && word.starts_with(['4', '5']) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the class of the last reply in a paragraph: servers quote the last answer last.
fn reply_class(paragraph: &[String]) -> Option<u8> {
    paragraph.iter().rev().find_map(|line| reply_class_in(line))
}

/// A reply code begins a line, or follows a word or mark with which servers quote.
fn reply_class_in(line: &str) -> Option<u8> {
    const BEFORE: [&str; 7] = ["said", "error", "code", "reply", "response", "status", "reason"];
    const UNITS: [&str; 8] = ["byte", "octet", "second", "minute", "hour", "day", "kb", "mb"];
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_quoted = |place: usize| {
        let Some(before) = place.checked_sub(1).map(|before| words[before]) else { return true };
        words[place].starts_with('#')
            || before.ends_with([':', '<', '>', ')', ','])
            || BEFORE.iter().any(|word| word.eq_ignore_ascii_case(trimmed(before)))
    };
    let has_unit = |place: usize| {
        let next = words.get(place + 1).map(|next| next.to_ascii_lowercase()).unwrap_or_default();
        UNITS.iter().any(|unit| next.starts_with(unit))
    };
    let class = |place: usize| {
        let word = words[place];
        let code = word.split_once('-').map_or(word, |(code, _)| code);
        let marked =
            || trimmed_start(word).strip_prefix('#').and_then(|code| trimmed(code).parse::<EnhancedCode>().ok());
        if is_reply(code) && is_quoted(place) && !has_unit(place) {
            return Some(trimmed(code).as_bytes()[0] - b'0');
        }
        marked().map(|code| code.class).filter(|class| matches!(class, 4 | 5))
    };
    (0..words.len()).rev().find_map(class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failures(text: &str) -> Vec<(String, String)> {
        let found = NoticeText::of(text).failures(&[]);
        found.into_iter().map(|failure| (failure.recipient.to_string(), failure.reason)).collect()
    }

    fn failed(text: &str) -> Vec<String> {
        failures(text).into_iter().map(|(recipient, _)| recipient).collect()
    }

    #[test]
    fn the_texts_of_servers_name_their_failures() {
        let qmail = "Hi. This is the qmail-send program at far.example.\nI'm afraid I wasn't able to deliver your message.\n\n\
            <zoe@far.example>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n\
            <joe@far.example>:\nI'm not going to try again.\n\n--- Below this line is a copy of the message.\n\n<eve@far.example>:\n550 no\n";
        assert_eq!(failed(qmail), ["zoe@far.example", "joe@far.example"]);
        for text in [
            "Delivery to zoe@far.example failed: 550 5.1.1 No such user",
            "<zoe@far.example>: host mx.far.example said: 550 User unknown\n    (in reply to RCPT TO command)",
            "Your message could not be delivered to:\n\nzoe@far.example\n   SMTP error after RCPT TO:<zoe@far.example>:\n   550-No such\n   550 user here",
            "The message could not be delivered.\n\n>>> RCPT TO:<zoe@far.example>\n<<< 553 sorry, not here",
            "zoe@far.example\n#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##",
        ] {
            assert_eq!(failed(text), ["zoe@far.example"], "{text}");
        }
    }

    #[test]
    fn delays_and_other_mail_name_no_failure() {
        for text in [
            "zoe@far.example: 550 try\n\nThis is a warning only. The message will be retried.",
            "zoe@far.example: 451 4.7.1 Greylisted",
            "Dear zoe@far.example, your order 550 is on its way.",
            "zoe@far.example has 512 bytes",
            "I am away. Write to zoe@far.example.",
            "zoe@far.example\n\n550 5.1.1 elsewhere",
            "Received: from a\n550 5.1.1 <zoe@far.example> no",
        ] {
            assert_eq!(failed(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_header_field_and_the_text_complete_each_other() {
        let zoe: EmailAddress = "zoe@far.example".parse().unwrap();
        let text = NoticeText::of("A message could not be delivered:\n\n  Zoe@far.example\n    Unrouteable address\n");
        assert_eq!(text.failures(std::slice::from_ref(&zoe))[0].reason, "Zoe@far.example Unrouteable address");
        assert_eq!(text.failures(&[]), []);
        let list = NoticeText::of("  bad@far.example\n    (generated from zoe@far.example)\n    550 no\n");
        assert_eq!(list.generated_from(&zoe), "bad@far.example".parse().ok());
    }

    #[test]
    fn codes_are_those_beside_a_reply() {
        for (text, code) in [
            ("550 5.1.1 No such user", "5.1.1"),
            ("host said: 550-5.7.1 a 550 5.7.1 b", "5.7.1"),
            ("5.1.2 (550 Nowhere)", "5.1.2"),
            ("Sorry. (#5.1.1)", "5.1.1"),
        ] {
            assert_eq!(enhanced_code(text), code.parse().ok(), "{text}");
        }
        for text in ["", "550 No such user", "Exim 4.96.2 says no", "550"] {
            assert_eq!(enhanced_code(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(<|>|a@b.example|550 |5\\.1\\.1|#|:|\n|[(]generated from |Hi. This is|\\PC){0,60}") {
            let text = NoticeText::of(&text);
            let failures = text.failures(&[]);
            prop_assert!(failures.iter().all(|failure| failure.reason.chars().count() <= MAX_REASON));
            let _ = text.generated_from(&"a@b.example".parse().unwrap());
        }
    }
}
