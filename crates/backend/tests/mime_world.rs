//! Shapes of mail that other readers show, and that were once shown wrongly.

use mailapi_backend::mime::MessageStructure;
use mailapi_backend::{Correspondent, FullMessage};
use mailapi_model::Timestamp;

fn opened(raw: &[u8]) -> FullMessage {
    let at = Timestamp::from_seconds(0);
    MessageStructure::uncut(raw).into_full_message(raw, 1, raw.len() as u64, Vec::new(), at)
}

/// Returns text, HTML and the names of attachments.
fn bodies(raw: &str) -> (Option<String>, Option<String>, Vec<String>) {
    let FullMessage { text, html, attachments, .. } = opened(raw.replace('\n', "\r\n").as_bytes());
    let unix = |text: String| text.replace("\r\n", "\n");
    (text.map(unix), html.map(unix), attachments.into_iter().map(|one| one.filename).collect())
}

fn expect(raw: &str, text: Option<&str>, html: Option<&str>, attachments: &[&str]) {
    let owned = |text: &str| text.to_owned();
    let names = attachments.iter().copied().map(owned).collect();
    assert_eq!(bodies(raw), (text.map(owned), html.map(owned), names), "{raw}");
}

/// A multipart of this kind, with these parts.
fn multipart(kind: &str, parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--{kind}\n{part}\n")).collect();
    format!("Content-Type: multipart/{kind}; boundary={kind}\n\n{parts}--{kind}--")
}

const PLAIN: &str = "Content-Type: text/plain\n\none";
const HTML: &str = "Content-Type: text/html\n\n<p>two";
const PICTURE: &str = "Content-Type: image/png; name=p.png\nContent-Disposition: inline; filename=p.png\n\npng";
const PDF: &str = "Content-Type: application/pdf; name=a.pdf\n\npdf";

#[test]
fn a_name_makes_no_attachment_of_an_alternative() {
    for html in [
        "Content-Type: text/html; name=mail.html\n\n<p>two",
        "Content-Type: text/html\nContent-Disposition: inline; filename=mail.html\n\n<p>two",
    ] {
        expect(&multipart("alternative", &[PLAIN, html]), Some("one"), Some("<p>two"), &[]);
    }
    let plain = "Content-Type: text/plain; name=a.txt\n\none";
    expect(&multipart("alternative", &[plain, HTML]), Some("one"), Some("<p>two"), &[]);
}

#[test]
fn the_first_text_is_the_body_even_with_a_name() {
    let named = "Content-Type: text/plain; name=body.txt\n\none";
    expect(&multipart("mixed", &[named, PDF]), Some("one"), None, &["a.pdf"]);
    expect(&multipart("mixed", &[PLAIN, named]), Some("one"), None, &["body.txt"]);
    let attached = "Content-Type: text/plain\nContent-Disposition: attachment; filename=x.txt\n\none";
    expect(&multipart("mixed", &[attached, PLAIN]), Some("one"), None, &["x.txt"]);
    expect(attached, None, None, &["x.txt"]);
}

#[test]
fn texts_around_pictures_are_one_body() {
    let later = "Content-Type: text/plain\n\nSecond paragraph.";
    expect(&multipart("mixed", &[PLAIN, PICTURE, later]), Some("one\nSecond paragraph."), None, &["p.png"]);
    let html = "Content-Type: text/html\n\n<p>three";
    expect(&multipart("mixed", &[HTML, PICTURE, html]), None, Some("<p>two\n<p>three"), &["p.png"]);
    // Apple Mail: the plain form beside the texts around a picture.
    let rich = multipart("mixed", &[HTML, PICTURE, html]);
    expect(&multipart("alternative", &[PLAIN, &rich]), Some("one"), Some("<p>two\n<p>three"), &["p.png"]);
}

#[test]
fn a_footer_joins_both_bodies() {
    let footer = "Content-Type: text/plain\n\nList: <a&b>";
    let (text, html) = ("two\nList: <a&b>", "<p>two\n<pre>List: &lt;a&amp;b&gt;</pre>\n");
    expect(&multipart("mixed", &[HTML, footer]), Some(text), Some(html), &[]);
    let both = multipart("alternative", &[PLAIN, HTML]);
    expect(
        &multipart("mixed", &[&both, footer]),
        Some("one\nList: <a&b>"),
        Some("<p>two\n<pre>List: &lt;a&amp;b&gt;</pre>\n"),
        &[],
    );
}

#[test]
fn an_empty_multipart_hides_nothing() {
    for empty in [
        "Content-Type: multipart/alternative; boundary=i\n\n",
        "Content-Type: multipart/alternative; boundary=i\n\n--i--\n",
        "Content-Type: multipart/alternative\n\n",
    ] {
        expect(&multipart("mixed", &[empty, PLAIN]), Some("one"), None, &[]);
        expect(&multipart("mixed", &[empty, HTML]), None, Some("<p>two"), &[]);
    }
    let preamble = "Content-Type: multipart/alternative; boundary=i\n\nold text";
    expect(&multipart("mixed", &[preamble, PDF]), Some("old text"), None, &["a.pdf"]);
}

#[test]
fn a_part_of_related_is_an_attachment() {
    expect(&multipart("related", &[HTML, PLAIN]), None, Some("<p>two"), &["attachment-1.txt"]);
    let alternative = multipart("alternative", &[PLAIN, HTML]);
    expect(&multipart("related", &[&alternative, PICTURE]), Some("one"), Some("<p>two"), &["p.png"]);
}

#[test]
fn thousands_of_texts_are_joined_up_to_a_limit() {
    let message = multipart("mixed", &[PLAIN; 500]);
    let (text, _, attachments) = bodies(&message);
    assert_eq!((text.unwrap().lines().count(), attachments.len()), (100, 400));
}

#[test]
fn what_stands_before_the_first_field_hides_no_field() {
    for before in [" \r\n", "\t\r\n", "\u{feff}", " \r\n \r\n", " ", "\u{feff}\t"] {
        let raw = format!("{before}From: Ann <ann@x.example>\r\nSubject: hi\r\n\r\nplain");
        let message = opened(raw.as_bytes());
        let ann = Correspondent { name: "Ann".to_owned(), email: "ann@x.example".to_owned() };
        assert_eq!((message.summary.from, message.summary.subject.as_str()), (ann, "hi"), "{before:?}");
        assert_eq!((message.text.as_deref(), message.headers.len()), (Some("plain"), 2));
    }
}

#[test]
fn a_forgotten_semicolon_hides_neither_charset_nor_name() {
    let page = "Content-Type: text/html charset=koi8-r\nContent-Transfer-Encoding: quoted-printable\n\n<p>=F0=D2";
    expect(page, None, Some("<p>Пр"), &[]);
    let file = "Content-Type: application/pdf name=a.pdf\nContent-Disposition: attachment filename=\"b c.pdf\"\n\nx";
    expect(file, None, None, &["b c.pdf"]);
}

#[test]
fn an_empty_message_of_parts_has_no_attachment() {
    for end in ["", "\n", "\n\n"] {
        expect(&format!("Content-Type: multipart/mixed; boundary=b\n\n{end}"), None, None, &[]);
    }
}

#[test]
fn text_is_decoded_in_every_spelling_of_its_encoding() {
    for encoding in ["base64;", "base64 (RFC 2045)", "BASE64 ; x=y", "\"base64\""] {
        let raw =
            format!("Content-Type: text/plain; charset=cp932\nContent-Transfer-Encoding: {encoding}\n\nk/qWew==\n");
        expect(&raw, Some("日本"), None, &[]);
    }
}
