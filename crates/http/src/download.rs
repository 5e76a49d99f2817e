//! Streams files to the client, so that memory does not grow with their size.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use mailapi_service::mailbox::ByteStream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A file from a mail. The headers make browsers save it and run nothing, whatever its type.
pub fn download(content_type: &str, filename: &str, size: u64, content: ByteStream) -> Response {
    const SANDBOX: (HeaderName, HeaderValue) = (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    let content_type = HeaderValue::from_str(content_type);
    let headers = [
        (CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"))),
        (CONTENT_LENGTH, HeaderValue::from(size)),
        (CONTENT_DISPOSITION, disposition(filename)),
        SANDBOX,
    ];
    // The status is already sent, so a failure can only close the connection before the announced length.
    let content = content.inspect_err(|error| tracing::error!(%error, "download interrupted"));
    (headers, Body::from_stream(content)).into_response()
}

/// `attachment` with the name twice: in ASCII for old programs and in UTF-8 (RFC 6266, RFC 8187).
fn disposition(filename: &str) -> HeaderValue {
    /// `attr-char` of RFC 8187 section 3.2.1 stays as it is.
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'!')
        .remove(b'#')
        .remove(b'$')
        .remove(b'&')
        .remove(b'+')
        .remove(b'-')
        .remove(b'.')
        .remove(b'^')
        .remove(b'_')
        .remove(b'`')
        .remove(b'|')
        .remove(b'~');
    let filename = &harmless(filename);
    // Clients disagree about quotes, backslashes and `%`, so they are replaced.
    let plain = |c: char| if (' '..='~').contains(&c) && !"\"\\%".contains(c) { c } else { '_' };
    let ascii: String = filename.chars().map(plain).collect();
    let encoded = utf8_percent_encode(filename, ESCAPED);
    HeaderValue::try_from(format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}"))
        .unwrap_or(HeaderValue::from_static("attachment"))
}

/// Makes a name safe to save: no path, no line end, and no mark that changes the direction of the text after it
/// (`cod.exe` must not look like `exe.doc`).
fn harmless(filename: &str) -> String {
    let is_unwanted =
        |c: char| matches!(c, '/' | '\\' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let words = filename.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join(" ").replace(is_unwanted, "_");
    let name = name.trim_end_matches(['.', ' ']);
    if name.is_empty() { "attachment".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(filename: &str) -> String {
        disposition(filename).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let header = shown("a\"; filename=\"b.exe\r\nSet-Cookie: x=y");
        assert!(
            header.starts_with("attachment; filename=\"a_; filename=_b.exe Set-Cookie: x=y\"; filename*="),
            "{header}"
        );
        assert_eq!(header.matches('"').count(), 2);
    }

    #[test]
    fn a_name_beyond_ascii_is_there_in_full() {
        assert_eq!(
            shown("Übersicht 1.pdf"),
            "attachment; filename=\"_bersicht 1.pdf\"; filename*=UTF-8''%C3%9Cbersicht%201.pdf"
        );
    }

    #[test]
    fn a_name_is_no_path_and_hides_nothing() {
        assert_eq!(harmless("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(harmless("C:\\boot.ini"), "C:_boot.ini");
        assert_eq!(harmless("photo\u{202e}gpj.exe"), "photo_gpj.exe");
        assert_eq!(harmless(".gitignore"), ".gitignore");
        assert_eq!(harmless(" a  b. "), "a b");
        for nothing in ["", " . ", "..", "\r\n"] {
            assert_eq!(harmless(nothing), "attachment");
        }
    }

    proptest! {
        #[test]
        fn any_name_makes_one_line_of_ascii(name in any::<String>()) {
            let header = shown(&name);
            prop_assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
