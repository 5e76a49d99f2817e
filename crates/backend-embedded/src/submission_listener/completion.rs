//! Adds missing header fields to a submitted message (RFC 6409 section 8).

use mail_builder::headers::date::Date;
use mailapi_model::{EmailAddress, MessageId, Timestamp};

use super::header::AuthorFields;

/// Returns the missing ones of From, Date and Message-ID, to be prepended. `kept` is the rest of the header
/// block, and `rest` the text after it.
pub(super) fn added(
    kept: &[u8],
    rest: &[u8],
    fields: &AuthorFields,
    author: &EmailAddress,
    id: MessageId,
    now: Timestamp,
) -> String {
    let mut added = String::new();
    if !fields.has_date {
        added.push_str(&format!("Date: {}\r\n", Date::new(now.as_seconds()).to_rfc822()));
    }
    if fields.author.is_none() {
        added.push_str(&format!("From: <{}>\r\n", author.wire()));
    }
    if !fields.has_message_id {
        added.push_str(&format!("Message-ID: <{id}@{}>\r\n", author.domain_str()));
    }
    if !added.is_empty() && kept.is_empty() && !rest.starts_with(b"\r\n") {
        // Without a header block, the text must not be read as one.
        added.push_str("\r\n");
    }
    added
}

#[cfg(test)]
mod tests {
    use super::super::header::block;
    use super::*;

    fn completed(message: &str) -> String {
        let fields = AuthorFields::of(message.as_bytes()).unwrap();
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
        let (ann, now) = ("ann@here.example".parse().unwrap(), "2026-11-20T10:15:30Z".parse().unwrap());
        let (header, rest) = message.as_bytes().split_at(block(message.as_bytes()).len());
        added(header, rest, &fields, &ann, id, now) + message
    }

    const ADDED: &str = "Date: Fri, 20 Nov 2026 10:15:30 +0000\r\nFrom: <ann@here.example>\r\n\
                         Message-ID: <67e55044-10b1-426f-9247-bb680e5fe0c8@here.example>\r\n";

    #[test]
    fn a_complete_message_stays_as_it_is() {
        let message = "From: ann@here.example\r\nDate: x\r\nMessage-Id: <a@b>\r\n\r\nhello\r\n";
        assert_eq!(completed(message), message);
    }

    #[test]
    fn what_is_missing_is_added_and_the_text_stays_text() {
        assert_eq!(completed("Subject: x\r\n\r\nhello\r\n"), format!("{ADDED}Subject: x\r\n\r\nhello\r\n"));
        assert_eq!(completed("hello\r\n"), format!("{ADDED}\r\nhello\r\n"));
        assert_eq!(completed("\r\nhello\r\n"), format!("{ADDED}\r\nhello\r\n"));
        assert_eq!(completed(""), format!("{ADDED}\r\n"));
    }
}
