//! Messages that carry each sign in many ways: how many are found. Programs that send fraud vary the carriers, and not the trick.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use base64::Engine;
use image::{DynamicImage, GrayImage, ImageFormat, Luma};
use mailapi_model::Blob;
use mailapi_security::{Correspondent, KnownNames, SecurityReport, SecuritySign, Severity, Surroundings, analyze};

const HEADER: &str =
    "From: The Shop <news@shop.example.net>\r\nTo: ann@example.org\r\nSubject: Your order\r\nMIME-Version: 1.0\r\n";
const PAGE: &str = "<p>Your order is on its way.</p><a href=\"https://www.example.net/order/1\">See where it is</a>";
/// The least share of messages in which a sign is found.
const LEAST_RECALL: f64 = 0.95;
/// The least number of messages of each sign.
const LEAST_MESSAGES: usize = 20;

fn report(message: &str) -> SecurityReport {
    let person = |name: &str, address: &str| Correspondent { name: name.to_owned(), address: address.to_owned() };
    let surroundings = Surroundings {
        own_names: Arc::new(KnownNames::of(["example.org".parse().unwrap()])),
        own_checker: Some("mx.example.org".to_owned()),
        correspondents: vec![person("Eve Stone", "eve@example.org"), person("Carl", "carl@partner.net")],
    };
    analyze(&Blob::from(message.to_owned()), &surroundings).unwrap()
}

/// How the bytes of a part are written.
#[derive(Debug, Clone, Copy)]
enum Encoding {
    Plain,
    Base64,
    Quoted,
}

impl Encoding {
    const ALL: [Self; 3] = [Self::Plain, Self::Base64, Self::Quoted];

    /// Returns a part: its own fields, and its bytes.
    fn part(self, fields: &str, bytes: &[u8]) -> String {
        let (name, body) = match self {
            Self::Plain => ("8bit", String::from_utf8_lossy(bytes).into_owned()),
            Self::Base64 => ("BASE64", lines(&base64::engine::general_purpose::STANDARD.encode(bytes), "")),
            Self::Quoted => {
                let quoted: String = bytes.iter().map(|byte| quoted(*byte)).collect();
                // A line must not end inside the notation of a byte.
                ("Quoted-Printable", quoted.replace("=3E", "=3E=\r\n"))
            }
        };
        format!("{fields}\r\nContent-Transfer-Encoding: {name}\r\n\r\n{body}\r\n")
    }
}

fn quoted(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("={byte:02X}") }
}

fn lines(text: &str, end: &str) -> String {
    let lines: Vec<_> = text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line)).collect();
    lines.join(&format!("{end}\r\n"))
}

fn multipart(kind: &str, boundary: &str, parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
    format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\r\n\r\n{parts}--{boundary}--\r\n")
}

/// Returns a part inside of others.
fn placed(part: &str) -> Vec<String> {
    let text = "Content-Type: text/plain; charset=us-ascii\r\n\r\nYour order is on its way.\r\n";
    let picture = "Content-Type: image/gif\r\nContent-ID: <a@b>\r\n\r\nGIF89a\r\n";
    let alternative = multipart("alternative", "c", &[text, part]);
    let carried = format!("Content-Type: message/rfc822\r\n\r\n{HEADER}{part}");
    vec![
        part.to_owned(),
        multipart("mixed", "a", &[text, part]),
        multipart("Mixed", "a=b (x)", &[&multipart("related", "b", &[&alternative, picture]), text]),
        multipart("mixed", "a", &[text, &carried]),
        multipart("digest", "a", &[&format!("\r\n{HEADER}{part}")]),
        alternative,
    ]
}

/// Returns a page written in other ways.
fn spelled(page: &str) -> Vec<String> {
    let pieces = || page.split('"').enumerate();
    let entity = |c: char| if c.is_ascii_alphabetic() { format!("&#x{:x};", u32::from(c)) } else { c.to_string() };
    let in_values = |change: &dyn Fn(&str) -> String| {
        let changed = pieces().map(|(at, piece)| if at % 2 == 1 { change(piece) } else { piece.to_owned() });
        changed.collect::<Vec<_>>().join("\"")
    };
    let in_tags = |change: &dyn Fn(&str) -> String| {
        let tag = |tag: &str| {
            tag.split('"')
                .enumerate()
                .map(|(at, one)| if at % 2 == 0 { change(one) } else { one.into() })
                .collect::<Vec<_>>()
                .join("\"")
        };
        let pieces = page.split('<').map(|piece| {
            piece.split_once('>').map_or(piece.to_owned(), |(inside, rest)| format!("{}>{rest}", tag(inside)))
        });
        pieces.collect::<Vec<_>>().join("<")
    };
    let bare = |value: &str| {
        if value.contains([' ', '\'', '>']) || value.is_empty() { format!("'{value}'") } else { value.to_owned() }
    };
    let unquoted: String =
        pieces().map(|(at, piece)| if at % 2 == 1 { bare(piece) } else { piece.to_owned() }).collect();
    vec![
        page.to_owned(),
        page.replace('"', "'"),
        in_values(&|value| value.chars().map(entity).collect()),
        in_tags(&|tag| tag.to_uppercase()),
        in_tags(&|tag| tag.replace('=', " =\r\n ")),
        unquoted,
    ]
}

fn of_pages(pages: &[String]) -> Vec<String> {
    let types = ["Content-Type: text/html; charset=utf-8", "content-type: TEXT/HTML;\r\n\tcharset=\"UTF-8\""];
    let mut messages = Vec::new();
    for page in pages.iter().flat_map(|page| spelled(&format!("{PAGE}{page}"))) {
        for (at, encoding) in Encoding::ALL.into_iter().enumerate() {
            let part = encoding.part(types[at % types.len()], page.as_bytes());
            messages.extend(placed(&part).into_iter().map(|entity| format!("{HEADER}{entity}")));
        }
        let wide: Vec<u8> = page.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let part = Encoding::Base64.part("Content-Type: text/html; charset=utf-16le", &wide);
        messages.extend(placed(&part).into_iter().map(|entity| format!("{HEADER}{entity}")));
    }
    messages
}

/// Returns the fields that name a file, in the ways of RFC 2047, RFC 2231, and programs that know neither.
fn named(name: &str) -> Vec<String> {
    let kind = "Content-Type: application/octet-stream";
    let word = format!("=?UTF-8?B?{}?=", base64::engine::general_purpose::STANDARD.encode(name));
    let escaped: String = name.bytes().map(|byte| quoted(byte).replace('=', "%")).collect();
    let (start, end) = escaped.split_at(escaped.rfind('%').unwrap_or_default());
    let mut fields = vec![
        format!("{kind}; name=\"{word}\"\r\nContent-Disposition: attachment"),
        format!("{kind}\r\nContent-Disposition: attachment; filename=\"{word}\""),
        format!("{kind}\r\nContent-Disposition: attachment;\r\n filename*=utf-8''{escaped}"),
        format!("{kind}\r\nContent-Disposition: inline; filename*0*=utf-8''{start};\r\n filename*1*={end}"),
    ];
    if name.is_ascii() {
        fields.push(format!("{kind}\r\nCONTENT-DISPOSITION: ATTACHMENT; FILENAME=\"{name}\""));
        fields.push(format!("Content-Type: application/x-other;\r\n\tNAME=\"{name}\""));
    }
    fields
}

fn of_file(name: &str, bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    for fields in named(name) {
        for encoding in Encoding::ALL {
            if matches!(encoding, Encoding::Plain) && std::str::from_utf8(bytes).is_err() {
                continue;
            }
            let part = encoding.part(&fields, bytes);
            messages.extend(placed(&part).into_iter().map(|entity| format!("{HEADER}{entity}")));
        }
    }
    messages
}

fn of_files(files: &[(&str, &[u8])]) -> Vec<String> {
    files.iter().flat_map(|(name, bytes)| of_file(name, bytes)).collect()
}

/// Returns headers in front of honest bodies. Each is in place of a line of the honest one.
fn of_headers(line: &str, changed: &[&str]) -> Vec<String> {
    assert!(HEADER.contains(line), "{line}");
    let mut messages = Vec::new();
    for changed in changed {
        let header = HEADER.replace(line, changed);
        let renamed = |change: fn(&str) -> String| {
            let field =
                |line: &str| line.split_once(": ").map_or(line.to_owned(), |(n, v)| format!("{}: {v}", change(n)));
            header.split_inclusive("\r\n").map(field).collect::<String>()
        };
        let headers = [
            header.clone(),
            renamed(str::to_lowercase),
            renamed(str::to_uppercase),
            header.replace(": ", ":\r\n "),
            format!("X-One: 1\r\nReceived: by a\r\n{header}"),
            header.replace(": ", ":"),
        ];
        let part = Encoding::Base64.part("Content-Type: text/html; charset=utf-8", PAGE.as_bytes());
        for header in headers {
            messages.extend(placed(&part).into_iter().map(|entity| format!("{header}{entity}")));
            messages.push(format!("{header}{}", placed(&part)[1]).replace("\r\n", "\n"));
        }
    }
    messages
}

/// Returns a ZIP archive without compression.
fn zip(name: &str, is_encrypted: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    let (mut entry, config) = archive.new_file(name).start().unwrap();
    let mut writer = config.wrap(&mut entry);
    io::Write::write_all(&mut writer, b"x").unwrap();
    let (_, descriptor) = writer.finish().unwrap();
    entry.finish(descriptor).unwrap();
    archive.finish().unwrap();
    let directory = bytes.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    bytes[directory + 8] |= u8::from(is_encrypted);
    bytes
}

/// Returns pictures of a code in several sizes and formats.
fn pictures() -> Vec<(String, Vec<u8>)> {
    let code = qrcode::QrCode::new("https://evil.example.com/login?id=123").unwrap();
    let width = u32::try_from(code.width()).unwrap();
    let mut pictures = Vec::new();
    for (format, extension) in [(ImageFormat::Png, "png"), (ImageFormat::Jpeg, "jpg"), (ImageFormat::Gif, "gif")] {
        for scale in [3, 7] {
            let side = (width + 8) * scale;
            let image = GrayImage::from_fn(side, side, |x, y| {
                let [x, y] = [x, y].map(|at| (at / scale).checked_sub(4).filter(|at| *at < width));
                let is_dark = x.zip(y).is_some_and(|(x, y)| code[(x as usize, y as usize)] == qrcode::Color::Dark);
                Luma([if is_dark { 20 } else { 240 }])
            });
            let mut bytes = io::Cursor::new(Vec::new());
            DynamicImage::from(image).to_rgb8().write_to(&mut bytes, format).unwrap();
            pictures.push((format!("scan me.{extension}"), bytes.into_inner()));
        }
    }
    pictures
}

fn hidden() -> Vec<String> {
    let text = "text that people do not see ".repeat(20);
    let styles = [
        "display:none",
        "visibility: hidden",
        "opacity:0",
        "font-size:0px",
        "font: 1px/1px Arial",
        "color:#ffffff",
        "color:white;background-color:rgb(255, 255, 255)",
        "background:#336699;color:#336699",
        "position:absolute;left:-9999px",
        "text-indent:-9999px",
        "height:0;overflow:hidden",
        "max-height:0px",
        "clip-path:inset(100%)",
        "line-height:0",
        "d\\69 splay:/**/none",
    ];
    let around = [
        format!("<font color=\"#fefefe\">{text}</font>"),
        format!("<table bgcolor=\"#000000\"><tr><td><font color=\"black\">{text}</font></td></tr></table>"),
        format!("<div hidden=\"\">{text}</div>"),
    ];
    styles.iter().map(|style| format!("<div style=\"{style}\"><b>{text}</b></div>")).chain(around).collect()
}

fn pages(pages: &[&str]) -> Vec<String> {
    of_pages(&pages.iter().map(|page| (*page).to_owned()).collect::<Vec<_>>())
}

fn of_page_sign(sign: SecuritySign) -> Option<Vec<String>> {
    use SecuritySign::*;
    Some(match sign {
        LinkShowsOtherHost => pages(&[
            "<a href=\"https://evil.com/\">https://www.bank.com/</a>",
            "<a href=\"https://evil.com/\">www.<b>bank</b>.com</a>",
        ]),
        LookalikeLink => pages(&[
            "<a href=\"https://www.exarnple.org/\">x</a>",
            "<a href=\"https://examp1e.org/\">x</a>",
            "<a href=\"https://xn--80ak6aa92e.com/\">x</a>",
            "<p>See https://ex\u{430}mple.org/login</p>",
        ]),
        SimilarLink => {
            pages(&["<a href=\"https://example-login.com/\">x</a>", "<a href=\"https://www.exampel.org/\">x</a>"])
        }
        LookalikeCorrespondent => pages(&["<a href=\"https://www.p\u{430}rtner.net/\">x</a>"]),
        LinkToNumber => pages(&["<a href=\"http://192.0.2.1/\">x</a>", "<a href=\"http://0xc0000201/\">x</a>"]),
        LinkNamesUser => pages(&["<a href=\"https://www.bank.com@evil.com/\">x</a>"]),
        LinkRedirects => pages(&["<a href=\"https://www.bank.com/r?to=https%3A%2F%2Fevil.com%2F\">x</a>"]),
        LinkRunsCode => pages(&["<a href=\"data:text/html,x\">x</a>", "<a href=\"javascript:go()\">x</a>"]),
        PasswordField => pages(&["<form action=\"https://evil.com/\"><input type=\"password\"></form>"]),
        FormInMessage => pages(&["<form action=\"https://evil.com/\"><input></form>"]),
        HiddenText => of_pages(&hidden()),
        SplitWords => pages(&["p\u{200b}a\u{200b}s\u{200b}s\u{200b}w\u{200b}o\u{200b}r\u{200b}d"]),
        RemoteImages => pages(&["<img src=\"https://evil.com/a.png\">", "<table background=\"http://evil.com/b\">"]),
        _ => return None,
    })
}

fn of_file_sign(sign: SecuritySign) -> Option<Vec<String>> {
    use SecuritySign::*;
    let ole = [
        &b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..],
        &"_VBA_PROJECT".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    ]
    .concat();
    Some(match sign {
        ExecutableFile => {
            let encoded = format!("{HEADER}\r\nHi\r\nbegin 644 order.exe\r\n#35J0\r\n`\r\nend\r\n");
            let files: [(&str, &[u8]); 4] = [
                ("order.exe", b"x"),
                ("Order.SCR ", b"x"),
                ("a", b"MZ\x90\0\x03\0\0\0"),
                ("a.zip", &zip("b.exe", false)),
            ];
            of_files(&files).into_iter().chain([encoded]).collect()
        }
        ScriptFile => of_files(&[("order.js", b"x"), ("Order.PS1", b"x"), ("o.url", b"x")]),
        HiddenExtension => {
            of_files(&[("order.pdf.exe", b"x"), ("order\u{202e}fdp.scr", b"x"), ("a.doc          .js", b"x")])
        }
        FileIsNotItsName => of_files(&[("order.pdf", b"GIF89a0000"), ("order.jpg", b"%PDF-1.4\n")]),
        Macros => of_files(&[("a.doc", &ole), ("a.docm", &zip("word/vbaProject.bin", false))]),
        EncryptedArchive => of_files(&[("a.zip", &zip("a.txt", true))]),
        ArchiveInArchive => of_files(&[("a.zip", &zip("b.7z", false))]),
        DiskImage => of_files(&[("order.iso", b"x"), ("a.VHDX", b"x")]),
        PageBuildsFile => of_files(&[("a.html", b"<script>new Blob([x]); URL.createObjectURL(b)</script>")]),
        PageRunsCode => of_files(&[("a.svg", b"<svg onload=\"go()\">"), ("a.HTM", b"<ScRiPt>go()</script>")]),
        CodeWithLink => pictures().iter().flat_map(|(name, bytes)| of_file(name, bytes)).collect(),
        _ => return None,
    })
}

fn of_header_sign(sign: SecuritySign) -> Vec<String> {
    use SecuritySign::*;
    const FROM: &str = "The Shop <news@shop.example.net>";
    const TO: &str = "To: ann@example.org\r\n";
    match sign {
        AuthenticationFailed => {
            of_headers(TO, &["Authentication-Results: mx.example.org; dmarc=fail header.from=a.b\r\n"])
        }
        PaddedMessage => of_headers(TO, &[&"X: y\r\n".repeat(10_000)]),
        AmbiguousMessage => of_headers(
            TO,
            &[
                "From: b@evil.com\r\n",
                "Subject: other\r\n",
                "Content-Type: application/x-other\r\n",
                "Reply-To: a@shop.example.net\r\nReply-To: b@shop.example.net\r\n",
                "Content-Disposition: inline; filename=a.pdf; filename=a.exe\r\n",
            ],
        ),
        LookalikeSender => of_headers(FROM, &["A <a@EXAMP1E.org>", "a@mail.exarnple.org", "a@ex\u{430}mple.org"]),
        SimilarSender => of_headers(FROM, &["A <a@example-shop.com>", "=?utf-8?Q?A?= <a@exampel.org>"]),
        KnownName => {
            of_headers(FROM, &["Eve Stone <a@b.com>", "=?utf-8?B?RXZlIFN0b25l?= <a@b.com>", "\"stone, EVE\" <a@b.com>"])
        }
        NameIsAddress => of_headers(FROM, &["\"help@bank.com\" <a@b.com>", "=?utf-8?Q?help=40bank.com?= <a@b.com>"]),
        ReplyElsewhere => {
            of_headers(TO, &["Reply-To: a@evil.com\r\n", "Reply-To: a@shop.example.net, B <b@evil.com>\r\n"])
        }
        FirstContact => of_headers(TO, &["To: ann@example.org\r\n"]),
        _ => unreachable!("{} has no messages", sign.code()),
    }
}

fn messages(sign: SecuritySign) -> Vec<String> {
    of_page_sign(sign).or_else(|| of_file_sign(sign)).unwrap_or_else(|| of_header_sign(sign))
}

fn has(sign: SecuritySign, message: &str) -> bool {
    let mut report = report(message);
    report.note_contact(Some(true));
    report.reasons.iter().any(|reason| reason.sign == sign && !reason.evidence.is_empty())
}

#[test]
fn honest_messages_have_no_sign_that_counts() {
    let file: &[u8] = b"%PDF-1.4 order";
    let bases = pages(&[""]).into_iter().chain(of_file("order.pdf", file)).chain(of_headers("Your order", &["Hi"]));
    for message in bases {
        let report = report(&message);
        let counted: Vec<_> = report.reasons.iter().filter(|reason| reason.sign.severity() > Severity::Note).collect();
        assert!(counted.is_empty() && !report.is_partial, "{counted:?}\n{message}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is for people")]
fn each_sign_is_found_however_it_is_carried() {
    let mut low = Vec::new();
    println!("| sign | messages | found |\n|---|---|---|");
    for sign in SecuritySign::ALL {
        let messages: HashSet<String> = messages(sign).into_iter().collect();
        assert!(messages.len() >= LEAST_MESSAGES, "{}", sign.code());
        let missed: Vec<_> = messages.iter().filter(|message| !has(sign, message)).collect();
        let recall = 1.0 - missed.len() as f64 / messages.len() as f64;
        println!("| `{}` | {} | {:.1} % |", sign.code(), messages.len(), 100.0 * recall);
        if recall < LEAST_RECALL {
            low.push((sign.code(), recall, missed[0].clone()));
        }
    }
    assert!(low.is_empty(), "{low:#?}");
}
