//! The text of all parts of a message, for IMAP SEARCH (RFC 3501 section 6.4.4, BODY and TEXT).

use super::fields::one_line;
use super::header::Header;
use super::transfer::{self, TransferEncoding};
use super::tree::{PartTree, PartTreeContent};
use super::{charset, html};

/// Returns whether a part of this type may contain text besides the bodies.
#[must_use]
pub fn may_hold_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.starts_with("message/") || media_type.starts_with("multipart/")
}

/// Passes the text of each text part to `is_wanted`, including attached and forwarded parts, until it returns
/// true; returns whether it did.
///
/// Each text is decoded and on one line. With `with_headers`, the headers of parts and forwarded messages are
/// included.
#[must_use]
pub fn any_text(raw: &[u8], with_headers: bool, mut is_wanted: impl FnMut(&str) -> bool) -> bool {
    let tree = PartTree::of(raw);
    let mut waiting = vec![&tree];
    while let Some(part) = waiting.pop() {
        let header = Header::of(&raw[part.header.clone()]);
        if with_headers && header.lines().any(|line| is_wanted(&line)) {
            return true;
        }
        match &part.content {
            PartTreeContent::Multipart(parts) => waiting.extend(parts),
            PartTreeContent::Message(message) => waiting.push(message),
            PartTreeContent::Leaf if may_hold_text(&part.media_type) => {
                if texts(&header, &part.media_type, &raw[part.body.clone()]).any(|text| is_wanted(&text)) {
                    return true;
                }
            }
            PartTreeContent::Leaf => {}
        }
    }
    false
}

/// Returns the text of a part. For HTML, both the rendered text and the source.
fn texts(header: &Header<'_>, media_type: &str, body: &[u8]) -> impl Iterator<Item = String> + use<> {
    let encoding = header.written("Content-Transfer-Encoding").map(|name| TransferEncoding::named(&name));
    let parameters = header.parameters("Content-Type").map(|written| written.parameters).unwrap_or_default();
    let charset = parameters.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("charset")).map(|(_, name)| name);
    let is_html = media_type == "text/html";
    let text = charset::decode_part(charset.as_deref(), is_html, &transfer::decode(encoding.unwrap_or_default(), body));
    let shown = is_html.then(|| one_line(&html::text_of(&text)));
    std::iter::once(one_line(&text)).chain(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "Subject: outer\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nfirst\r\n\
        --b\r\nContent-Type: text/csv; charset=iso-8859-1\r\nContent-Disposition: attachment\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\ncaf=E9\r\n\
        --b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\nContent-Transfer-Encoding: base64\r\n\r\nbmVlZGxl\r\n\
        --b\r\nContent-Type: image/png\r\n\r\nhidden\r\n--b--\r\n";

    fn holds(text: &str, with_headers: bool) -> bool {
        any_text(MESSAGE.as_bytes(), with_headers, |line| line.contains(text))
    }

    #[test]
    fn every_text_part_is_looked_into_and_nothing_else() {
        for text in ["first", "café", "needle"] {
            assert!(holds(text, false), "{text}");
        }
        for text in ["outer", "inner", "attachment"] {
            assert!(holds(text, true) && !holds(text, false), "{text}");
        }
        for text in ["hidden", "bmVl", "--b"] {
            assert!(!holds(text, true), "{text}");
        }
    }

    #[test]
    fn html_is_found_as_it_is_shown_and_as_it_is_written() {
        let html = b"Content-Type: text/html\r\n\r\n<p>spli<b>t wo</b>rd</p>";
        for text in ["split word", "<b>t wo</b>"] {
            assert!(any_text(html, false, |line| line.contains(text)), "{text}");
        }
    }
}
