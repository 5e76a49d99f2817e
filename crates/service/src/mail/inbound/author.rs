//! The author of a message, as its From field names it (RFC 5322 section 3.6.2).

use std::collections::BTreeSet;

use mail_auth::AuthenticatedMessage;
use mail_auth::common::to_a_label;
use mailapi_backend::mime::{AddressEntry, Header, Limits, header_lines};

/// Maximum number of author domains, and of From fields, that are considered.
const MAX_AUTHORS: usize = 20;

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    /// The domains in all From fields, without repetition. Names of domains only if there is no fault.
    pub(super) domains: Vec<String>,
    /// Why no single domain answers for the message.
    pub(super) fault: Option<Fault>,
}

/// Why no single domain answers for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No From field, or none with an address that can be read.
    NoAddress,
    /// More than one From field.
    SeveralFields,
    /// Addresses in several domains, or a field that readers understand differently.
    SeveralDomains,
}

impl Fault {
    /// Returns the words for it in the results.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::NoAddress => "no valid author",
            Self::SeveralFields => "several From fields",
            Self::SeveralDomains => "several authors",
        }
    }
}

impl Author {
    /// Reads the author in a header. Does not depend on mail-auth, which reads nothing after a line that is not a
    /// field.
    pub(super) fn of(header: &[u8]) -> Self {
        let fields = from_fields(header);
        let found: BTreeSet<String> = fields.iter().take(MAX_AUTHORS).flat_map(|field| domains_in(field)).collect();
        let domains: Vec<String> = found.into_iter().take(MAX_AUTHORS).collect();
        let fault = match (fields.as_slice(), domains.as_slice()) {
            ([_, _, ..], _) => Some(Fault::SeveralFields),
            (_, [_, _, ..]) => Some(Fault::SeveralDomains),
            ([field], [domain]) if is_name(domain) && is_readable(field) => None,
            _ => Some(Fault::NoAddress),
        };
        Self { domains, fault }
    }
}

/// Returns the From fields with their folded lines. Lines that are not fields do not end the header, because some
/// readers continue after them.
fn from_fields(header: &[u8]) -> Vec<Vec<u8>> {
    let (mut fields, mut is_open): (Vec<Vec<u8>>, _) = (Vec::new(), false);
    for line in header_lines(header) {
        let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
        if !is_continued {
            let name = line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len());
            is_open = name.is_some_and(is_from);
            if is_open {
                fields.push(Vec::new());
            }
        }
        if let Some(field) = fields.last_mut().filter(|_| is_open) {
            field.extend_from_slice(line);
        }
    }
    fields
}

/// Returns whether this is the name of the author's field.
pub(super) fn is_from(name: &[u8]) -> bool {
    name.trim_ascii().eq_ignore_ascii_case(b"From")
}

/// Returns the domains of the authors in a From field, as this server's readers and as mail-auth see them: a field
/// that both read differently must not hide an author.
fn domains_in(field: &[u8]) -> Vec<String> {
    let entries = Header::of(field).addresses("From");
    let ours = entries.iter().filter_map(|entry| match entry {
        AddressEntry::Mailbox { domain, .. } => Some(domain.as_str()),
        AddressEntry::GroupStart(_) | AddressEntry::GroupEnd => None,
    });
    let parsed = AuthenticatedMessage::parse(field).map(|message| message.from).unwrap_or_default();
    let theirs = parsed.iter().filter_map(|address| address.rsplit_once('@')).map(|(_, domain)| domain.trim());
    let domains = ours.chain(theirs).filter(|domain| !domain.is_empty());
    domains.map(|domain| to_a_label(domain.trim_end_matches('.')).to_ascii_lowercase()).collect()
}

/// Returns whether all readers see the same address in a From field. Some end at a NUL, and no reader here reads more
/// than a part of a very long field.
fn is_readable(field: &[u8]) -> bool {
    let has_local_part = |entry: &AddressEntry| match entry {
        AddressEntry::Mailbox { local_part, domain, .. } => !local_part.is_empty() && !domain.is_empty(),
        AddressEntry::GroupStart(_) | AddressEntry::GroupEnd => false,
    };
    let is_short = field.len() <= Limits::default().max_address_bytes;
    is_short && !field.contains(&0) && Header::of(field).addresses("From").iter().any(has_local_part)
}

/// Returns whether DNS can have this name. Underscores occur in names of hosts; a numeric last label means an IPv4
/// address (RFC 3696 section 2).
fn is_name(domain: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    let is_numeric = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    domain.len() <= 253 && domain.split('.').all(is_label) && !domain.rsplit('.').next().is_some_and(is_numeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(from: &str) -> Author {
        Author::of(format!("To: bob@here.example\r\nFrom: {from}\r\nSubject: Hi\r\n\r\n").as_bytes())
    }

    #[test]
    fn a_field_without_an_address_names_no_author() {
        for from in [
            "",
            "<>",
            "Ann",
            "Ann <>",
            "<Ann>",
            "=?utf-8?q?ceo=40bank.example?=",
            "=?utf-8?q?ceo=40bank.example?= <>",
            "ceo@=?utf-8?q?bank.example?=",
            "Undisclosed:;",
            "@bank.example",
            "ceo@",
            "ceo@bank..example",
            "ceo@[192.0.2.7]",
            "ceo@192.0.2.7",
            "ceo@bank.example\0",
            "ceo\0@bank.example",
            "ceo@bank.example (\0)",
            "(ceo@bank.example)",
        ] {
            assert_eq!(of(from).fault, Some(Fault::NoAddress), "{from:?}");
        }
        assert_eq!(Author::of(b"Subject: Hi\r\n\r\n").fault, Some(Fault::NoAddress));
        assert_eq!(Author::of(b"\r\nFrom: ceo@bank.example\r\n").fault, Some(Fault::NoAddress));
        let long = format!("ceo@bank.example,{}", " ".repeat(Limits::default().max_address_bytes));
        assert_eq!(of(&long).fault, Some(Fault::NoAddress));
    }

    #[test]
    fn no_author_hides_behind_many_others() {
        let many = "zoe@far.example, ".repeat(1000);
        let author = of(&format!("{many}ceo@bank.example"));
        assert_eq!(author.fault, Some(Fault::SeveralDomains));
        assert_eq!(author.domains, ["bank.example", "far.example"]);
        let fields = "zoe@far.example\r\nFrom: zoe@far.example";
        assert_eq!(of(fields).fault, Some(Fault::SeveralFields));
    }

    #[test]
    fn an_address_in_any_valid_form_is_the_author() {
        for from in [
            "ceo@bank.example",
            "<ceo@BANK.example.>",
            "Ann Lee <ceo@bank.example>",
            "Lee, Ann <ceo@bank.example>",
            "\"a@b, c\" <ceo@bank.example>",
            "=?utf-8?q?Ann?= <ceo@bank.example>",
            "ceo(c)@bank.example",
            "(a) ceo@bank.example",
            "ceo@bank.example (Ann (Home) Lee)",
            "ceo @ bank.example",
            "Team: ceo@bank.example, cfo@bank.example;",
            "ceo@bank.example,\r\n cfo@bank.example",
        ] {
            let author = of(from);
            assert_eq!((author.fault, author.domains), (None, vec!["bank.example".to_owned()]), "{from}");
        }
        for (from, domain) in [
            ("root@my_host.bank.example", "my_host.bank.example"),
            ("ceo@bücher.example", "xn--bcher-kva.example"),
            ("root@localhost", "localhost"),
        ] {
            assert_eq!(of(from), Author { domains: vec![domain.to_owned()], fault: None });
        }
    }

    proptest! {
        #[test]
        fn any_header_has_an_author_or_a_fault(header in prop::collection::vec(any::<u8>(), 0..200), from in "\\PC{0,60}") {
            for header in [header, format!("From: {from}\r\n\r\n").into_bytes()] {
                let Author { domains, fault } = Author::of(&header);
                prop_assert!(fault.is_some() || (domains.len() == 1 && is_name(&domains[0])));
            }
        }
    }
}
