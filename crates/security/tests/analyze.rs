//! Whole messages: an honest one, and one for each sign.

use std::sync::Arc;

use mailapi_model::Blob;
use mailapi_security::{
    Correspondent, KnownNames, ResultSource, SecurityReport, SecuritySign, Surroundings, Verdict, analyze,
};
use proptest::prelude::*;

const HEADER: &str = "Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=shop.example.net;\r\n \
    dkim=pass header.d=shop.example.net; dmarc=pass header.from=shop.example.net\r\n\
    From: The Shop <news@shop.example.net>\r\nTo: ann@example.org\r\nSubject: Your order\r\n\
    Reply-To: Service <service@example.net>\r\nMIME-Version: 1.0\r\n";
const PAGE: &str = "<p>Your order is on its way.</p><div style=\"display:none\">See where it is</div>\
    <p><a href=\"https://www.example.net/order/1\">www.example.net/order/1</a> or \
    <a href=\"https://shop.example.net/\">your account</a><img src=\"https://img.example.net/logo.png\">";

fn surroundings() -> Surroundings {
    Surroundings {
        own_names: Arc::new(KnownNames::of(["example.org".parse().unwrap()])),
        own_checker: Some("mx.example.org".to_owned()),
        correspondents: [("Eve Stone", "eve@example.org"), ("Carl", "carl@partner.net")]
            .map(|(name, address)| Correspondent { name: name.to_owned(), address: address.to_owned() })
            .to_vec(),
    }
}

fn analyzed(message: String) -> SecurityReport {
    analyze(&Blob::from(message), &surroundings()).unwrap()
}

/// Returns a message with a page and an attached file.
fn message(header: &str, page: &str, file: (&str, &str)) -> String {
    let (name, content) = file;
    format!(
        "{header}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{page}\r\n\
         --b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\r\n\
         {content}\r\n--b--\r\n"
    )
}

const FILE: (&str, &str) = ("order.pdf", "%PDF-1.4 order");

#[test]
fn an_honest_message_is_clean() {
    let report = analyzed(message(HEADER, PAGE, FILE));
    let codes: Vec<_> = report.reasons.iter().map(|reason| reason.sign.code()).collect();
    assert_eq!((report.verdict, report.score, codes.as_slice()), (Verdict::Clean, 0, &["remote_images"][..]));
    assert_eq!(report.authentication.source, ResultSource::Own);
    assert_eq!(report.authentication.dmarc.unwrap().result, "pass");
    let hosts: Vec<_> = report.links.iter().map(|link| (link.host.as_str(), link.shown_host_differs)).collect();
    assert_eq!(hosts, [("shop.example.net", false), ("www.example.net", false)]);
    assert_eq!((report.content.hidden_text, report.content.remote_images, report.is_partial), (12, 1, false));
    assert_eq!(report.files[0].detected_type.as_deref(), Some("application/pdf"));
}

#[test]
fn each_sign_is_found_in_a_message_that_has_it() {
    use SecuritySign::*;
    let header = |from: &str, to: &str| {
        assert!(HEADER.contains(from), "{from}");
        message(&HEADER.replace(from, to), PAGE, FILE)
    };
    let page = |more: &str| message(HEADER, &format!("{PAGE}{more}"), FILE);
    let file = |name: &str, content: &str| message(HEADER, PAGE, (name, content));
    let hidden = "text that nobody sees ".repeat(30);
    let cases = [
        (AuthenticationFailed, header("dmarc=pass", "dmarc=fail")),
        (LookalikeSender, header("news@shop.example.net", "news@examp1e.org")),
        (SimilarSender, header("news@shop.example.net", "news@example-shop.com")),
        (NameIsAddress, header("The Shop", "\"help@bank.com\"")),
        (ReplyElsewhere, header("service@example.net", "service@freemail.com")),
        (LinkShowsOtherHost, page("<a href=https://evil.com/>https://www.bank.com/</a>")),
        (LookalikeLink, page("<a href=https://www.exarnple.org/>x</a>")),
        (SimilarLink, page("<a href=https://example-login.com/>x</a>")),
        (LinkToNumber, page("<a href=http://192.0.2.1/>x</a>")),
        (LinkNamesUser, page("<a href=https://www.bank.com@evil.com/>x</a>")),
        (LinkRedirects, page("<a href=https://www.bank.com/r?to=https://evil.com/>x</a>")),
        (LinkRunsCode, page("<a href='data:text/html;base64,PHA+'>x</a>")),
        (PasswordField, page("<form action=https://evil.com/><input type=password></form>")),
        (FormInMessage, page("<form action=https://evil.com/></form>")),
        (HiddenText, page(&format!("<div style='font-size: 0'>{hidden}</div>"))),
        (SplitWords, page("p\u{200b}a\u{200b}s\u{200b}s\u{200b}w\u{200b}o\u{200b}r\u{200b}d")),
        (ExecutableFile, file("order.exe", "x")),
        (ScriptFile, file("order.js", "x")),
        (HiddenExtension, file("order.pdf.scr", "x")),
        (FileIsNotItsName, file("order.pdf", "GIF89a0000")),
        (DiskImage, file("order.iso", "x")),
        (PageBuildsFile, file("order.html", "<script>new Blob([x]); URL.createObjectURL(b)</script>")),
        (PageRunsCode, file("order.svg", "<svg onload=\"go()\">")),
    ];
    for (sign, message) in &cases {
        let report = analyzed(message.clone());
        let found = report.reasons.iter().find(|reason| reason.sign == *sign);
        let found = found.unwrap_or_else(|| panic!("{} is missing: {:?}", sign.code(), report.reasons));
        assert!(!found.evidence.is_empty(), "{}", sign.code());
        assert!(report.score >= sign.severity().points(), "{}", sign.code());
        assert!(report.reasons.is_sorted_by_key(|reason| std::cmp::Reverse(reason.sign.severity())));
    }
}

fn codes(report: &SecurityReport) -> Vec<&'static str> {
    report.reasons.iter().map(|reason| reason.sign.code()).collect()
}

/// Attaches a message to another one, and that to a third, until the chain has this depth.
fn carrying(depth: usize, inner: &str) -> String {
    (0..depth).fold(inner.to_owned(), |inner, level| {
        format!(
            "{HEADER}Content-Type: multipart/mixed; boundary=c{level}\r\n\r\n--c{level}\r\n\r\nsee below\r\n--c{level}\r\n\
             Content-Type: text/csv; name=a.csv\r\n\r\nx\r\n--c{level}\r\nContent-Type: message/rfc822\r\n\r\n{inner}\r\n--c{level}--\r\n"
        )
    })
}

#[test]
fn carried_messages_are_examined_like_the_message() {
    let inner = message(HEADER, "<a href=https://examp1e.org/>x</a>", ("order.exe", "x"));
    for depth in 1..=3 {
        let report = analyzed(carrying(depth, &inner));
        assert_eq!(codes(&report), ["lookalike_link", "executable_file"], "{depth}");
        assert!(report.links.iter().any(|link| link.host == "examp1e.org") && !report.is_partial);
        let nested = report.files.iter().find(|file| file.name == "order.exe").unwrap();
        assert_eq!((nested.index, nested.executable), (1, true));
    }
    let report = analyzed(carrying(4, &inner));
    assert_eq!((codes(&report), report.is_partial), (vec![], true));
    let twice = analyzed(carrying(1, &format!("From: c@d.example\r\n{inner}")));
    assert!(codes(&twice).contains(&"ambiguous_message"));
}

#[test]
fn many_carried_messages_have_common_bounds() {
    let digest = |count: usize| {
        let part = format!("--d\r\n\r\n{HEADER}\r\nHi\r\n");
        format!("{HEADER}Content-Type: multipart/digest; boundary=d\r\n\r\n{}--d--\r\n", part.repeat(count))
    };
    assert_eq!(analyzed(digest(100)).verdict, Verdict::Clean);
    assert_eq!(analyzed(digest(101)).verdict, Verdict::Unknown);
    let long = message(HEADER, &"<p>x</p>".repeat(100_000), FILE);
    assert_eq!(analyzed(carrying(1, &long)).verdict, Verdict::Clean);
    let two = analyzed(carrying(1, &carrying(1, &long).replacen("see below", &"<p>x</p>".repeat(100_000), 1)));
    assert_eq!(two.verdict, Verdict::Unknown);
}

#[test]
fn other_texts_that_programs_show_are_read() {
    let page = "<p>x</p><a href=https://examp1e.org/>y</a>";
    for media_type in
        ["application/xhtml+xml", "application/xhtml+xml; name=a.xhtml", "text/x-amp-html", "text/html; name=a.htm"]
    {
        let report = analyzed(message(HEADER, PAGE, FILE).replace(
            "application/octet-stream\r\nContent-Disposition: attachment; filename=\"order.pdf\"\r\n\r\n%PDF-1.4 order",
            &format!("{media_type}\r\n\r\n{page}"),
        ));
        assert_eq!(codes(&report), ["lookalike_link", "remote_images"], "{media_type}");
    }
    let encoded = analyzed(format!("{HEADER}\r\nHi\r\nbegin 644 order.pdf.exe\r\n#35J0\r\n`\r\nend\r\n"));
    assert_eq!(codes(&encoded), ["executable_file", "hidden_extension"]);
    assert!(encoded.files.is_empty());
}

#[test]
fn a_first_contact_is_a_note() {
    let mut report = analyzed(message(HEADER, PAGE, FILE));
    report.note_contact(None);
    assert_eq!((report.sender.first_contact, report.reasons.len()), (None, 1));
    report.note_contact(Some(true));
    let last = report.reasons.last().unwrap();
    assert_eq!(
        (last.sign.code(), last.evidence.as_slice()),
        ("first_contact", &["news@shop.example.net".to_owned()][..])
    );
    assert_eq!((report.verdict, report.score), (Verdict::Clean, 0));
}

#[test]
fn what_was_not_read_is_said() {
    let long = message(HEADER, &"<p>x</p>".repeat(200_000), FILE);
    assert_eq!(analyzed(long).verdict, Verdict::Unknown);
    let header = HEADER.replace("Reply-To", "X-Reply-To");
    let encrypted = format!("{header}Content-Type: application/pkcs7-mime; name=smime.p7m\r\n\r\nx\r\n");
    let report = analyzed(encrypted);
    assert_eq!((report.verdict, report.is_partial), (Verdict::Unknown, true));
}

#[test]
fn a_message_of_many_links_takes_no_longer_than_its_length() {
    let own = (0..5_000).map(|number| format!("company{number:05}.com").parse().unwrap());
    let surroundings = Surroundings { own_names: Arc::new(KnownNames::of(own)), ..surroundings() };
    let links: String = (0..20_000).map(|number| format!("<a href=http://compony{number:05}.com/>x</a>")).collect();
    let deep = "<div style='display:none'>".repeat(20_000) + &"</p>".repeat(20_000);
    let attributes: String = (0..50_000).map(|number| format!(" a{number}=x")).collect();
    for page in [links, deep, format!("<p{attributes}>")] {
        let message = Blob::from(message(HEADER, &page, FILE));
        // A quadratic reader would not end before the test's time limit.
        let report = analyze(&message, &surroundings).unwrap();
        assert!(report.links.len() <= mailapi_security::bounds::LISTED_LINKS);
    }
}

proptest! {
    #[test]
    fn any_message_is_analyzed(message in prop::collection::vec(any::<u8>(), 0..400), page in "\\PC{0,100}") {
        let _ = analyze(&Blob::from(message), &surroundings()).unwrap();
        let _ = analyzed(self::message(HEADER, &page, (&page, &page)));
    }
}

#[test]
fn the_page_about_signs_is_that_of_the_code() {
    let page = include_str!("../../../docs/security-analysis.md");
    let is_of = |line: &str, sign: &SecuritySign| line.starts_with(&format!("| `{}` |", sign.code()));
    let rows: Vec<_> = page.lines().filter(|line| SecuritySign::ALL.iter().any(|sign| is_of(line, sign))).collect();
    let row = |sign: &SecuritySign| format!("| `{}` | {} | {} |", sign.code(), sign.severity().as_str(), sign.text());
    assert_eq!(rows, SecuritySign::ALL.iter().map(row).collect::<Vec<_>>());
}
