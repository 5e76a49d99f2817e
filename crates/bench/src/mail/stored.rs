//! Mail as stored in a mailbox (RFC 5322), for external servers.

use std::fmt::Write as _;

use super::{Author, READER, WRITER, subject};
use crate::scale::Scale;

const BOUNDARY: &str = "=_a1b2c3d4e5f6";
/// Characters per line of base64 (RFC 2045 section 6.8).
const DIGITS: usize = 76;

impl Author {
    /// The stored form of the `inbox_message` with this number.
    pub(crate) fn stored_message(&self, number: usize, scale: &Scale) -> String {
        let message = self.inbox_message(number, scale);
        let text = message["body"]["text"].as_str().unwrap_or_default().replace('\n', "\r\n");
        let mut mail = format!(
            "Received: from mail.outside.example (mail.outside.example [192.0.2.7])\r\n\tby mx.bench.test with ESMTPS id \
             4aBcD{number};\r\n\tSat, 21 Nov 2026 10:00:00 +0000\r\nFrom: Wanda Writer <{WRITER}>\r\nTo: Rosa Reader \
             <{READER}>\r\nSubject: {}\r\nMessage-ID: <{number}.a1b2c3d4@bench.test>\r\nDate: Sat, 21 Nov 2026 \
             10:00:00 +0000\r\nMIME-Version: 1.0\r\n",
            subject(number)
        );
        let plain = format!("Content-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n");
        let Some(file) = message["attachments"][0].as_object() else { return mail + &plain };
        let (name, content) = (&file["filename"], file["content"].as_str().unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = write!(
            mail,
            "Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n--{BOUNDARY}\r\n{plain}\r\n--{BOUNDARY}\r\n\
             Content-Type: application/octet-stream; name={name}\r\nContent-Disposition: attachment; filename={name}\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n"
        );
        for at in (0..content.len()).step_by(DIGITS) {
            mail.push_str(&content[at..content.len().min(at + DIGITS)]);
            mail.push_str("\r\n");
        }
        mail + &format!("\r\n--{BOUNDARY}--\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::FULL;

    #[test]
    fn lines_end_as_in_mail() {
        for number in 0..40 {
            let mail = Author::new().stored_message(number, &FULL);
            assert_eq!(mail.matches('\n').count(), mail.matches("\r\n").count(), "{number}");
            assert!(mail.lines().all(|line| line.len() <= 200), "{number}");
        }
    }

    #[test]
    fn some_have_an_attachment() {
        let author = Author::new();
        assert!(author.stored_message(20, &FULL).len() > 130_000);
        assert!(author.stored_message(21, &FULL).len() < 6_000);
    }
}
