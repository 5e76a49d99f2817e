//! Header fields in ASCII.

use std::borrow::Cow;

use mail_builder::headers::Header;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::text::Text;
use mailapi_model::DomainName;

use super::super::addresses::AddressEntry;
use super::super::fields::{self, Field, Parameterized};
use super::ConversionError;

/// What else changes in a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderChange {
    None,
    /// The transfer encoding of a multipart, which is that of its parts, is left out: 7bit is the default (RFC 2045 section
    /// 6.1).
    SevenBit,
    /// The body has this encoding now.
    Encoded {
        encoding: &'static str,
        /// The charset of a text without a Content-Type.
        charset: Option<&'static str>,
        /// Whether it is the header of a message, not of a part.
        is_message: bool,
    },
}

/// Fields that contain addresses (RFC 5322 sections 3.6.2, 3.6.3 and 3.6.6, RFC 8098 section 2.1).
const ADDRESS_FIELDS: [&str; 13] = [
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Resent-From",
    "Resent-Sender",
    "Resent-To",
    "Resent-Cc",
    "Resent-Bcc",
    "Disposition-Notification-To",
    "Mail-Followup-To",
];

/// Fields with parameters (RFC 2045 section 5, RFC 2183).
const PARAMETER_FIELDS: [&str; 2] = ["Content-Type", "Content-Disposition"];

/// Fields in whose syntax no encoded word may occur (RFC 2047 section 5): programs read them. So do the names that begin
/// with one of [`PROGRAM_PREFIXES`].
const PROGRAM_FIELDS: [&str; 15] = [
    "Message-ID",
    "In-Reply-To",
    "References",
    "Resent-Message-ID",
    "Content-ID",
    "Content-Location",
    "Content-Transfer-Encoding",
    "MIME-Version",
    "Date",
    "Resent-Date",
    "Received",
    "Return-Path",
    "Delivered-To",
    "DKIM-Signature",
    "Authentication-Results",
];
const PROGRAM_PREFIXES: [&str; 3] = ["ARC-", "List-", "Autocrypt"];

/// Returns the fields of a header block in ASCII, and the empty line at its end. Other lines are left out.
pub(super) fn rewritten(block: &[u8], change: HeaderChange) -> Result<Vec<u8>, ConversionError> {
    let all = fields::fields(block, usize::MAX);
    let mut written = Vec::with_capacity(block.len() + 256);
    for field in &all {
        if change != HeaderChange::None && is_one_of(field.name, &["Content-Transfer-Encoding"]) {
            continue;
        }
        write(field, &mut written)?;
    }
    if let HeaderChange::Encoded { encoding, charset, is_message } = change {
        // Without it, readers may ignore the encoding (RFC 2045 section 4).
        if is_message && !all.iter().any(|field| is_one_of(field.name, &["MIME-Version"])) {
            written.extend_from_slice(b"MIME-Version: 1.0\r\n");
        }
        if let Some(charset) = charset {
            written.extend_from_slice(format!("Content-Type: text/plain; charset={charset}\r\n").as_bytes());
        }
        written.extend_from_slice(format!("Content-Transfer-Encoding: {encoding}\r\n").as_bytes());
    }
    written.extend_from_slice(b"\r\n");
    Ok(written)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

fn write(field: &Field<'_>, written: &mut Vec<u8>) -> Result<(), ConversionError> {
    written.extend_from_slice(field.name.as_bytes());
    written.push(b':');
    if field.value.is_ascii() {
        written.extend_from_slice(&field.value);
        written.extend_from_slice(b"\r\n");
        return Ok(());
    }
    written.push(b' ');
    let column = field.name.len() + 2;
    let is_for_programs = || {
        is_one_of(field.name, &PROGRAM_FIELDS)
            || PROGRAM_PREFIXES.iter().any(|prefix| {
                field.name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
            })
    };
    if is_one_of(field.name, &ADDRESS_FIELDS) {
        addresses(&field.value)?.write_header(written, column);
    } else if let Some(content_type) = content_type(field) {
        content_type.write_header(written, column);
    } else if is_for_programs() || is_one_of(field.name, &PARAMETER_FIELDS) {
        written.extend(escaped(&field.value));
        written.extend_from_slice(b"\r\n");
    } else {
        Text::new(fields::text_line(&field.value)).write_header(written, column);
    }
    Ok(())
}

/// Replaces octets beyond ASCII so that equal identifiers stay equal, and different ones different.
fn escaped(value: &[u8]) -> Vec<u8> {
    super::escaped(value.trim_ascii_start())
}

/// Returns the field with its parameters, if it has some.
fn content_type<'a>(field: &Field<'_>) -> Option<ContentType<'a>> {
    if !is_one_of(field.name, &PARAMETER_FIELDS) {
        return None;
    }
    let read = Parameterized::read(&field.value, usize::MAX)?;
    let value = Some(read.value).filter(|value| value.is_ascii())?;
    let with = |field: ContentType<'a>, (name, value): (String, String)| field.attribute(name, value);
    let parameters = read.parameters.into_iter().filter(|(name, _)| name.is_ascii());
    Some(parameters.fold(ContentType::new(value), with))
}

/// Returns the addresses of a field. Comments become names, or are left out.
fn addresses(value: &[u8]) -> Result<Address<'static>, ConversionError> {
    let mut list = Vec::new();
    let mut group: Option<(String, Vec<Address<'static>>)> = None;
    for entry in fields::address_entries(value, usize::MAX) {
        match entry {
            AddressEntry::GroupStart(name) => group = Some((name, Vec::new())),
            AddressEntry::GroupEnd => {
                list.extend(group.take().map(|(name, members)| Address::new_group(Some(name), members)));
            }
            AddressEntry::Mailbox { name, local_part, domain, .. } => {
                let one = mailbox(name, &local_part, &domain)?;
                match &mut group {
                    Some((_, members)) => members.push(one),
                    None => list.push(one),
                }
            }
        }
    }
    Ok(Address::new_list(list))
}

fn mailbox(name: String, local_part: &str, domain: &str) -> Result<Address<'static>, ConversionError> {
    if domain.is_empty() && (local_part.is_empty() || !local_part.is_ascii()) {
        // Words without an address: an empty group keeps them (RFC 6857 section 3.1.7).
        return Ok(Address::new_group(Some(format!("{name} {local_part}").trim().to_owned()), Vec::new()));
    }
    if !local_part.is_ascii() {
        return Err(ConversionError::Address);
    }
    let domain: Cow<'_, str> = match domain.is_ascii() {
        true => domain.into(),
        false => match domain.parse::<DomainName>() {
            Ok(domain) => domain.as_str().to_owned().into(),
            Err(_) => return Err(ConversionError::Address),
        },
    };
    let entry = AddressEntry::Mailbox {
        name: String::new(),
        route: None,
        local_part: local_part.to_owned(),
        domain: domain.into_owned(),
    };
    Ok(Address::new_address(Some(name).filter(|name| !name.is_empty()), entry.address()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::Header as ReadHeader;
    use super::*;

    fn ascii(block: &str) -> Result<String, ConversionError> {
        rewritten(block.as_bytes(), HeaderChange::None).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn an_address_that_has_no_ascii_form_is_refused() {
        for field in
            ["From: jürgen@x.example", "To: a@x.example, \"ü b\"@x.example", "Cc: g: ü@x.example;", "To: a@-ü-.x"]
        {
            assert!(matches!(ascii(&format!("{field}\r\n\r\n")), Err(ConversionError::Address)), "{field}");
        }
    }

    #[test]
    fn fields_keep_their_meaning() {
        let block = "Subject: Grüße\r\nFrom: Jürgen <j@bücher.example>\r\n\
            To: \"Müller, Eva\" <\"e v\"@x.example>, ann@x.example, Gäste: bob@x.example;\r\n\
            Message-ID: <ü@x.example>\r\nReferences: <ü@x.example>\r\n <b@x.example>\r\nX-Old: ascii\r\n  folded\r\n\
            Content-Disposition: attachment; filename=\"Prüfung 1.pdf\"; size=3\r\n\r\n";
        let written = ascii(block).unwrap();
        assert!(written.is_ascii(), "{written}");
        assert!(written.contains("\r\nX-Old: ascii\r\n  folded\r\n"), "{written}");
        assert!(
            written.contains("Message-ID: <=C3=BC@x.example>\r\nReferences: <=C3=BC@x.example>\r\n <b@x.example>\r\n")
        );
        let header = ReadHeader::of(written.as_bytes());
        assert_eq!(header.text("Subject").as_deref(), Some("Grüße"));
        assert_eq!(header.people("From"), ["Jürgen <j@xn--bcher-kva.example>"]);
        assert_eq!(header.addresses("To"), ReadHeader::of(block.as_bytes()).addresses("To"));
        let disposition = header.parameters("Content-Disposition").unwrap();
        assert!(written.contains("filename*=UTF-8''Pr%C3%BCfung%201.pdf"), "{written}");
        assert_eq!(disposition.value, "attachment");
    }

    #[test]
    fn words_without_an_address_stay_readable() {
        assert_eq!(ascii("To: Verborgene Empfänger\r\n\r\n").unwrap().matches(":;").count(), 1);
    }

    #[test]
    fn lines_are_short_enough() {
        let subject = "für ".repeat(2_000);
        let written = ascii(&format!("Subject: {subject}\r\n\r\n")).unwrap();
        assert!(written.lines().all(|line| line.len() <= 78), "{written}");
        assert_eq!(ReadHeader::of(written.as_bytes()).text("Subject").as_deref(), Some(subject.trim()));
    }

    proptest! {
        #[test]
        fn any_text_is_written_in_ascii_and_read_again(text in "[a-zäöü日€ ]{1,60}") {
            let written = ascii(&format!("Subject: {text}\r\nComments: x\r\n\r\n")).unwrap();
            prop_assert!(written.is_ascii());
            let before = format!("Subject: {text}\r\n\r\n");
            let before = ReadHeader::of(before.as_bytes()).text("Subject");
            prop_assert_eq!(ReadHeader::of(written.as_bytes()).text("Subject"), before);
        }

        #[test]
        fn any_block_is_written_in_ascii_or_refused(block in "((From|To|Subject|Content-Type|Received): |ü|<|>|@|\"|\\(|;|=|a|\\r\\n ?){0,40}") {
            if let Ok(written) = ascii(&block) {
                prop_assert!(written.is_ascii() && written.ends_with("\r\n"));
                prop_assert!(!written.trim_end_matches("\r\n").contains("\r\n\r\n"));
            }
        }
    }
}
