//! The mail of the measurements, generated from a fixed seed.

mod stored;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::random::Random;
use crate::scale::Scale;

/// The owner of the INBOX that is read.
pub(crate) const READER: &str = "reader@bench.test";
/// The sender.
pub(crate) const WRITER: &str = "writer@bench.test";
/// The recipient of messages sent during a measurement.
pub(crate) const RECEIVER: &str = "receiver@bench.test";
/// The recipient of messages whose delay is measured.
pub(crate) const PROBED: &str = "probed@bench.test";
/// The domain of these addresses.
pub(crate) const DOMAIN: &str = "bench.test";
/// A text that only planted messages contain: a part of a word, as typed into a search.
pub(crate) const PLANTED: &str = "phyrine";
/// Size of an ordinary attachment in bytes.
pub(crate) const ATTACHMENT_BYTES: usize = 100 * 1024;

const SEED: u64 = 20_261_121;
const WORDS: usize = 2_000;
const SHORTEST_TEXT: usize = 2_000;
const LONGEST_TEXT: usize = 4_000;
const LINE: usize = 72;

/// A generator of messages, the same ones in each run.
#[derive(Debug)]
pub(crate) struct Author {
    words: Vec<String>,
}

impl Author {
    pub(crate) fn new() -> Self {
        let mut random = Random::new(SEED);
        Self { words: (0..WORDS).map(|_| word(&mut random)).collect() }
    }

    /// A send request for message `number` of the INBOX that is read.
    pub(crate) fn inbox_message(&self, number: usize, scale: &Scale) -> Value {
        let mut random = Random::new(SEED + 1 + number as u64);
        let mut text = self.text(&mut random);
        if is_planted(number, scale) {
            text.push_str("The ze");
            text.push_str(PLANTED);
            text.push_str(" is in it.\n");
        }
        let mut message = json!({
            "from": WRITER, "to": [READER], "subject": subject(number), "body": { "text": text }
        });
        if has_attachment(number, scale) {
            let file = json!({
                "filename": format!("file-{number}.bin"), "content_type": "application/octet-stream",
                "content": STANDARD.encode(attachment(number))
            });
            message["attachments"] = json!([file]);
        }
        message
    }

    /// A send request for an ordinary message.
    pub(crate) fn ordinary_message(&self, number: usize) -> Value {
        let text = self.text(&mut Random::new(SEED ^ number as u64));
        json!({ "from": WRITER, "to": [RECEIVER], "subject": subject(number), "body": { "text": text } })
    }

    /// A message received from another server.
    pub(crate) fn outside_message(&self, number: usize, to: &str) -> String {
        let text = self.text(&mut Random::new(SEED ^ number as u64)).replace('\n', "\r\n");
        format!(
            "From: Somebody <somebody@outside.example>\r\nTo: <{to}>\r\nSubject: {}\r\nMessage-ID: \
             <{number}@outside.example>\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{text}",
            subject(number)
        )
    }

    /// Lines of random words.
    fn text(&self, random: &mut Random) -> String {
        let wanted = SHORTEST_TEXT + random.below(LONGEST_TEXT - SHORTEST_TEXT);
        let (mut text, mut line) = (String::with_capacity(wanted + LINE), 0);
        while text.len() < wanted {
            let word = &self.words[random.below(self.words.len())];
            text.push_str(word);
            line += word.len() + 1;
            text.push(if line < LINE { ' ' } else { '\n' });
            line = if line < LINE { line } else { 0 };
        }
        text.push('\n');
        text
    }
}

/// The attachment of message `number`.
pub(crate) fn attachment(number: usize) -> Vec<u8> {
    Random::new(SEED + 7 * number as u64).bytes(ATTACHMENT_BYTES)
}

pub(crate) fn subject(number: usize) -> String {
    format!("Minutes of meeting {number}")
}

pub(crate) const fn has_attachment(number: usize, scale: &Scale) -> bool {
    number.is_multiple_of(scale.attachment_every)
}

pub(crate) const fn is_planted(number: usize, scale: &Scale) -> bool {
    number % scale.planted_every == 1
}

/// A word of 3 to 10 letters.
fn word(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"etaoinsrhdlucmfwgbvkx";
    (0..3 + random.below(8)).map(|_| char::from(LETTERS[random.below(LETTERS.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::FULL;

    #[test]
    fn every_run_sends_the_same_mail() {
        assert_eq!(Author::new().inbox_message(20, &FULL), Author::new().inbox_message(20, &FULL));
        assert_eq!(attachment(20).len(), ATTACHMENT_BYTES);
    }

    #[test]
    fn texts_are_as_long_as_the_documentation_says() {
        let author = Author::new();
        for number in 0..100 {
            let message = author.ordinary_message(number);
            let length = message["body"]["text"].as_str().unwrap().len();
            assert!((SHORTEST_TEXT..=LONGEST_TEXT + LINE).contains(&length), "{length}");
        }
    }

    #[test]
    fn only_planted_messages_hold_the_planted_text() {
        let author = Author::new();
        for number in 0..1_000 {
            let holds = author.inbox_message(number, &FULL)["body"]["text"].as_str().unwrap().contains(PLANTED);
            assert_eq!(holds, is_planted(number, &FULL), "{number}");
        }
    }

    #[test]
    fn no_line_of_a_message_from_outside_begins_with_a_dot() {
        assert!(!Author::new().outside_message(1, PROBED).contains("\r\n."));
    }
}
