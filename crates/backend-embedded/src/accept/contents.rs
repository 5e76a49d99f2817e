//! The bytes of a message: as it was received, and as mailboxes get it.
//!
//! Mailboxes get it without fields `Delivered-To` that name an address here: only this server says to which of its
//! addresses a message was sent. Other servers get these fields, which end loops ([`super::loops`]).

use std::collections::HashSet;
use std::ops::Range;

use mailapi_backend::mime::header_lines;
use mailapi_model::{Blob, DomainName, EmailAddress};
use rusqlite::Connection;

use super::{AcceptError, Prepared, loops};
use crate::MessageStoreSettings;
use crate::message_store::{ContentId, MessageStoreError, content};

/// The stored bytes of a message; each form is stored when it is first needed.
pub(super) struct StoredForms<'a> {
    connection: &'a Connection,
    mail: &'a Prepared,
    settings: &'a MessageStoreSettings,
    received: Option<ContentId>,
    kept: Option<ContentId>,
}

impl<'a> StoredForms<'a> {
    pub(super) const fn none(
        connection: &'a Connection,
        mail: &'a Prepared,
        settings: &'a MessageStoreSettings,
    ) -> Self {
        Self { connection, mail, settings, received: None, kept: None }
    }

    pub(super) const fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// Returns the message as it was received.
    pub(super) fn received(&mut self) -> Result<ContentId, AcceptError> {
        let content = match self.received.or(self.kept.filter(|_| self.mail.for_mailboxes.is_none())) {
            Some(content) => content,
            None => content::insert(self.connection, &self.mail.content, self.settings).map_err(database)?,
        };
        self.received = Some(content);
        Ok(content)
    }

    /// Returns the message as mailboxes get it.
    pub(super) fn kept(&mut self) -> Result<ContentId, AcceptError> {
        let content = match self.kept.or(self.received.filter(|_| self.mail.for_mailboxes.is_none())) {
            Some(content) => content,
            None => self.another()?,
        };
        self.kept = Some(content);
        Ok(content)
    }

    /// Returns the same with a number of its own. In one mailbox, messages with different lines must not have one
    /// identifier (RFC 8474 section 5.1).
    pub(super) fn another(&self) -> Result<ContentId, AcceptError> {
        content::insert(self.connection, self.mail.kept(), self.settings).map_err(database)
    }
}

/// Bytes that cannot be stored are a server error and not the sender's fault.
fn database(error: MessageStoreError) -> AcceptError {
    AcceptError::Store(error.into_store())
}

/// A field `Delivered-To` of a header block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignField {
    lines: Range<usize>,
    /// The domain that it names; `None` if it names no address.
    domain: Option<DomainName>,
}

/// Returns the fields `Delivered-To` of a header block.
pub(super) fn fields(header: &[u8]) -> Vec<ForeignField> {
    let (mut fields, mut at, mut is_open) = (Vec::<ForeignField>::new(), 0, false);
    for line in header_lines(header) {
        let lines = at..at + line.len();
        at = lines.end;
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            is_open = is_delivered_to(line);
            fields.extend(is_open.then_some(ForeignField { lines, domain: None }));
        } else if is_open && let Some(field) = fields.last_mut() {
            field.lines.end = lines.end;
        }
    }
    for field in &mut fields {
        let value = loops::delivered_to(&header[field.lines.clone()]);
        field.domain = value.map(|address: EmailAddress| address.domain());
    }
    fields
}

/// White space before the colon is obsolete syntax but valid (RFC 5322 section 4.5).
fn is_delivered_to(line: &[u8]) -> bool {
    // Readers of mail ignore a byte order mark in front of the first field.
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    name.len() < line.len() && name.trim_ascii_end().eq_ignore_ascii_case(loops::FIELD.as_bytes())
}

/// Returns the domains that the fields name, of at most `most` fields.
pub(super) fn domains(fields: &[ForeignField], most: usize) -> HashSet<DomainName> {
    fields.iter().take(most).filter_map(|field| field.domain.clone()).collect()
}

/// Returns the message without the fields that name one of these domains, or no address, or are beyond `most`; `None` if
/// all fields stay.
pub(super) fn without(
    message: &Blob,
    fields: &[ForeignField],
    domains: &HashSet<DomainName>,
    most: usize,
) -> Option<Blob> {
    let is_removed = |(place, field): &(usize, &ForeignField)| {
        *place >= most || field.domain.as_ref().is_none_or(|domain| domains.contains(domain))
    };
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (_, field) in fields.iter().enumerate().filter(is_removed) {
        pieces.push(message.slice(at..field.lines.start));
        at = field.lines.end;
    }
    if pieces.is_empty() {
        return None;
    }
    pieces.push(message.slice(at..message.len()));
    Some(Blob::joined(pieces))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(message: &str) -> String {
        let found = fields(message.as_bytes());
        let domains = HashSet::from(["here.example".parse().unwrap()]);
        let blob = Blob::from(message.as_bytes().to_vec());
        let kept = without(&blob, &found, &domains, 3).unwrap_or(blob);
        String::from_utf8(kept.to_bytes().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn only_fields_that_name_no_other_server_are_removed() {
        let rest = "Subject: Delivered-To: x@here.example\r\n\r\nDelivered-To: x@here.example\r\n";
        for removed in [
            "Delivered-To: x@here.example\r\n",
            "delivered-to : <X@HERE.example>\r\n",
            "Delivered-To:\r\n x@here.example\r\n\t(for you)\r\n",
            "Delivered-To: x\r\n",
            "Delivered-To: x@here.example, y@there.example\r\n",
            "Delivered-To:\r\n",
            "\u{feff}Delivered-To: x@here.example\r\n",
        ] {
            assert_eq!(kept(&format!("{removed}{rest}")), rest, "{removed}");
        }
        for other in ["Delivered-To: me@there.example\r\n", "X-Delivered-To: x@here.example\r\n", ""] {
            assert_eq!(kept(&format!("{other}{rest}")), format!("{other}{rest}"));
        }
    }

    #[test]
    fn of_many_fields_the_first_are_kept() {
        let other = "Delivered-To: me@there.example\r\n";
        assert_eq!(kept(&(other.repeat(9) + "\r\nHi")), other.repeat(3) + "\r\nHi");
    }

    proptest! {
        #[test]
        fn a_kept_message_has_no_field_that_names_an_address_here(
            lines in prop::collection::vec("(Delivered-To: |delivered-to:|Subject: | |)[a-z@.<>:]{0,12}(@here.example)?(\r\n|\n)", 0..9)
        ) {
            let (message, domains) = (lines.concat() + "\r\nx", HashSet::from(["here.example".parse::<DomainName>().unwrap()]));
            let left = kept(&message);
            prop_assert!(left.len() <= message.len() && left.ends_with('x'));
            let is_other = |field: &ForeignField| field.domain.as_ref().is_some_and(|domain| !domains.contains(domain));
            prop_assert!(fields(left.as_bytes()).iter().all(is_other), "{left}");
        }

        #[test]
        fn any_header_is_read(header in prop::collection::vec(any::<u8>(), 0..200)) {
            for field in fields(&header) {
                prop_assert!(field.lines.end <= header.len());
            }
        }
    }
}
