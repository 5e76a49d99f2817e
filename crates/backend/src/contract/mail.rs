//! Messages for the stories.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns a plain message from Ann on another server. Its Message-ID is derived from the subject.
pub(super) fn plain(subject: &str, body: &str) -> Vec<u8> {
    with_header(subject, "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n", body)
}

/// Like [`plain`], with further header fields.
pub(super) fn with_header(subject: &str, more: &str, body: &str) -> Vec<u8> {
    let id: String = subject.chars().filter(char::is_ascii_alphanumeric).collect();
    format!(
        "From: Ann Lee <ann@elsewhere.example>\r\nTo: Bob <bob@elsewhere.example>\r\nSubject: {subject}\r\n\
         Date: Fri, 20 Nov 2026 12:15:30 +0200\r\nMessage-ID: <{id}@elsewhere.example>\r\nMIME-Version: 1.0\r\n\
         {more}\r\n{body}\r\n"
    )
    .into_bytes()
}

/// Returns a message with both bodies and three attachments: an inline image, `content` named `name`, and a
/// forwarded message.
pub(super) fn with_attachments(name: &str, content: &[u8]) -> Vec<u8> {
    let more = "Cc: Eve <eve@elsewhere.example>\r\nX-Note: one\r\nX-Note: =?utf-8?q?zw=C3=B6?=\r\n\
                Content-Type: multipart/mixed; boundary=\"outer\"\r\n";
    let bodies = "--outer\r\nContent-Type: multipart/alternative; boundary=\"inner\"\r\n\r\n\
                  --inner\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
                  Content-Transfer-Encoding: quoted-printable\r\n\r\nThe caf=E9 is open.\r\n\
                  --inner\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    let html = wrapped("<p>The <b>café</b> is open.</p>".as_bytes());
    let image = "--inner--\r\n--outer\r\nContent-Type: image/png\r\nContent-ID: <logo@elsewhere.example>\r\n\
                 Content-Disposition: inline\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    let file = format!(
        "--outer\r\nContent-Type: application/octet-stream; charset=\"koi8-r\"\r\nContent-Disposition: attachment;\r\n \
         filename*=utf-8''{name}\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    );
    let forwarded = "--outer\r\nContent-Type: message/rfc822\r\n\r\nSubject: the plan\r\n\r\nAs we said.\r\n--outer--";
    let body = [bodies, &html, image, &wrapped(b"\x89PNG\r\n\x1a\n"), &file, &wrapped(content), forwarded].concat();
    with_header("With attachments", more, &body)
}

/// Encodes as base64 in lines of 76 characters (RFC 2045 section 6.8).
fn wrapped(content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    let lines = encoded.as_bytes().chunks(76).map(|line| line.iter().map(|&byte| char::from(byte)).collect());
    lines.map(|line: String| line + "\r\n").collect()
}
