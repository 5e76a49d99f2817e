//! Fields that two programs may read differently, since they stand twice. A filter then checks one message, and people see another.

use std::collections::HashMap;

use mailapi_backend::mime::Header;

use crate::report::{Findings, shortened};
use crate::sign::SecuritySign;

/// Fields that stand once (RFC 5322 section 3.6, RFC 2045, RFC 2183), and decide what people see. Honest mail has others twice.
const SINGLE: [&str; 7] =
    ["From", "Sender", "Reply-To", "Subject", "Content-Type", "Content-Transfer-Encoding", "Content-Disposition"];
/// Fields with parameters, of which each stands once (RFC 2045 section 5).
const WITH_PARAMETERS: [&str; 2] = ["Content-Type", "Content-Disposition"];
/// Characters of a value that are shown, so that the other one has room.
const SHOWN_CHARS: usize = 80;

/// Looks for fields, and for parameters of them, that have two values.
pub(crate) fn examine(header: &Header<'_>, findings: &mut Findings) {
    for name in SINGLE {
        let mut values = header.texts(name);
        let Some(first) = values.next() else { continue };
        if let Some(other) = values.find(|other| !is_same(&first, other)) {
            note(name, &first, &other, findings);
        }
    }
    for field in WITH_PARAMETERS {
        let parameters = header.parameters(field).map(|written| written.parameters).unwrap_or_default();
        let mut first: HashMap<String, &String> = HashMap::new();
        for (name, value) in &parameters {
            let name = name.to_ascii_lowercase();
            match first.get(&name) {
                Some(earlier) if *earlier != value => note(&name, earlier, value, findings),
                Some(_) => {}
                None => drop(first.insert(name, value)),
            }
        }
    }
}

/// Returns whether programs read both in one way: blanks and letter case have no meaning in most of these fields.
fn is_same(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    words(one) == words(other)
}

fn note(name: &str, first: &str, other: &str, findings: &mut Findings) {
    let shown = |text: &str| shortened(&text.chars().take(SHOWN_CHARS).collect::<String>());
    findings.add(SecuritySign::AmbiguousMessage, format!("{name}: {}, and {}", shown(first), shown(other)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(header: &str) -> Vec<String> {
        let mut findings = Findings::default();
        examine(&Header::of(format!("{header}\r\n\r\n").as_bytes()), &mut findings);
        let report = findings.into_report(Default::default(), Default::default(), vec![], vec![], Default::default());
        report.reasons.into_iter().flat_map(|reason| reason.evidence).collect()
    }

    #[test]
    fn fields_with_two_values_are_found() {
        let cases = [
            ("From: a@b.example\r\nfrom: c@d.example", "From: a@b.example, and c@d.example"),
            ("Content-Type: text/plain\r\nContent-Type: text/html", "Content-Type: text/plain, and text/html"),
            (
                "Content-Transfer-Encoding: 7bit\r\nContent-Transfer-Encoding: base64",
                "Content-Transfer-Encoding: 7bit, and base64",
            ),
            ("Content-Type: multipart/mixed; boundary=a; Boundary=\"b\"", "boundary: a, and b"),
            ("Content-Disposition: attachment; filename=a.pdf;\r\n filename=a.exe", "filename: a.pdf, and a.exe"),
        ];
        for (header, expected) in cases {
            assert_eq!(evidence(header), [expected], "{header}");
        }
        let long = evidence(&format!("Subject: {0}\r\nSubject: {0}2", "x".repeat(100)));
        assert_eq!(long[0].chars().count(), "Subject: , and ".len() + 2 * SHOWN_CHARS);
    }

    #[test]
    fn fields_that_stand_twice_in_one_way_are_honest() {
        for header in [
            "From: Ann <a@b.example>\r\nFrom:  ann\r\n <A@b.example>",
            "To: a@b.example\r\nTo: c@d.example\r\nReceived: x\r\nReceived: y",
            "Content-Type: text/plain; charset=utf-8; charset=utf-8",
            "Content-Type: text/plain; name=a; name*=utf-8''b",
            "Content-Disposition: attachment; filename*0=a; filename*1=b",
        ] {
            assert!(evidence(header).is_empty(), "{header}");
        }
    }
}
