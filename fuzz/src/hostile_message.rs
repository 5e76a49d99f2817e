//! Messages whose fields and structure are arbitrary texts, for FETCH.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use mailapi_imap::Flags;
use mailapi_imap::server::mime::{
    Address, BodyStructure, Disposition, Envelope, Extension, Multipart, PartRange, SinglePart, SinglePartKind,
};
use mailapi_imap::server::session::Session;
use mailapi_imap::server::{Binary, MessageSource, ObjectId};
use mailapi_imap::token::{Span, without_nul};

use crate::memory_host::Message;

/// Characters of a text, so that the answer to a command stays short.
const MAX_CHARACTERS: usize = 24;
/// Parts inside each other.
const MAX_DEPTH: usize = 3;

/// Writes a message in place of [`Session::write_message`].
pub(crate) fn write(session: &mut Session, message: &Message, _: &mut Vec<u8>) {
    session.write_message(&HostileMessage { message, has_spans: false });
}

/// Writes a message whose octets the host sends itself.
pub(crate) fn write_spans(session: &mut Session, message: &Message, sent: &mut Vec<u8>) {
    session.write_message(&HostileMessage { message, has_spans: true });
    loop {
        sent.extend(session.take_output());
        match session.take_span() {
            None => return,
            Some(Span::Stored(range)) => sent.extend(message.bytes[within(range)].iter().copied().map(without_nul)),
            Some(Span::Decoded { path, range }) => {
                let Binary::Octets(octets) = message.binary(&path) else { panic!("a span of no part") };
                sent.extend_from_slice(&octets[within(range)]);
            }
        }
    }
}

fn within(range: Range<u64>) -> Range<usize> {
    let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("an offset in a message"));
    start..end
}

/// A message that a hostile client appended. Its lines are the texts of its fields and its structure.
struct HostileMessage<'a> {
    message: &'a Message,
    has_spans: bool,
}

impl HostileMessage<'_> {
    fn octet(&self, number: usize) -> u8 {
        self.message.bytes.get(number).copied().unwrap_or_default()
    }

    /// The line with this number; the lines repeat.
    fn text(&self, number: usize) -> String {
        let count = self.message.bytes.split(|&byte| byte == b'\n').count();
        let line = self.message.bytes.split(|&byte| byte == b'\n').nth(number % count).unwrap_or_default();
        String::from_utf8_lossy(line).chars().take(MAX_CHARACTERS).collect()
    }

    fn maybe(&self, number: usize) -> Option<String> {
        (self.octet(number) & 1 == 0).then(|| self.text(number))
    }

    fn addresses(&self, number: usize) -> Vec<Address> {
        let mailbox = Address::Mailbox {
            name: self.maybe(number),
            route: self.maybe(number + 1),
            local_part: self.text(number),
            domain: self.text(number + 2),
        };
        match self.octet(number) & 3 {
            0 => Vec::new(),
            1 => vec![Address::GroupStart(self.text(number)), mailbox, Address::GroupEnd],
            _ => vec![mailbox],
        }
    }

    fn parameters(&self, number: usize) -> Vec<(String, String)> {
        let pairs = usize::from(self.octet(number) & 3) / 2;
        (0..pairs).map(|pair| (self.text(number + pair), self.text(number + pair + 1))).collect()
    }

    fn extension(&self, number: usize) -> Extension {
        let has_disposition = self.octet(number) & 4 == 0;
        let disposition = || Disposition { kind: self.text(number), parameters: self.parameters(number) };
        Extension {
            disposition: has_disposition.then(disposition),
            languages: self.maybe(number + 3).into_iter().collect(),
            location: self.maybe(number + 4),
        }
    }

    fn structure(&self, depth: usize) -> BodyStructure {
        let octet = if depth < MAX_DEPTH { self.octet(depth) } else { 0 };
        let (subtype, lines) = (self.text(depth), u32::from(octet));
        let kind = match octet % 5 {
            0 | 1 => SinglePartKind::Text { subtype, lines },
            2 => SinglePartKind::Basic { media_type: self.text(depth + 1), subtype },
            3 => {
                let (envelope, body) = (Box::new(self.envelope()), self.structure(depth + 1));
                SinglePartKind::Message { envelope, body, lines }
            }
            _ => {
                let parts = if octet < 128 { vec![self.structure(depth + 1)] } else { Vec::new() };
                let (parameters, extension) = (self.parameters(depth), self.extension(depth));
                return BodyStructure::Multipart(Multipart { parts, subtype, parameters, extension });
            }
        };
        BodyStructure::Single(Box::new(SinglePart {
            kind,
            parameters: self.parameters(depth),
            id: self.maybe(depth),
            description: self.maybe(depth + 1),
            encoding: self.text(depth + 2),
            bytes: lines,
            md5: self.maybe(depth + 3),
            extension: self.extension(depth),
        }))
    }
}

impl MessageSource for HostileMessage<'_> {
    fn uid(&self) -> u32 {
        MessageSource::uid(self.message)
    }

    fn flags(&self) -> &Flags {
        MessageSource::flags(self.message)
    }

    fn modseq(&self) -> u64 {
        MessageSource::modseq(self.message)
    }

    fn internal_date(&self) -> Timestamp {
        self.message.internal_date()
    }

    fn save_date(&self) -> Timestamp {
        self.message.save_date()
    }

    fn size(&self) -> u64 {
        MessageSource::size(self.message)
    }

    fn envelope(&self) -> Envelope {
        Envelope {
            date: self.maybe(0),
            subject: self.maybe(1),
            from: self.addresses(2),
            sender: self.addresses(3),
            reply_to: self.addresses(4),
            to: self.addresses(5),
            cc: self.addresses(6),
            bcc: self.addresses(7),
            in_reply_to: self.maybe(8),
            message_id: self.maybe(9),
        }
    }

    fn body_structure(&self) -> BodyStructure {
        self.structure(0)
    }

    fn email_id(&self) -> ObjectId {
        MessageSource::email_id(self.message)
    }

    fn preview(&self) -> String {
        self.text(1)
    }

    fn section(&self, path: &[u32], range: PartRange) -> Option<Cow<'_, [u8]>> {
        self.message.section(path, range)
    }

    fn section_span(&self, path: &[u32], range: PartRange) -> Option<Range<u64>> {
        let range = self.message.layout().locate(path, range).filter(|_| self.has_spans)?;
        Some(range.start as u64..range.end as u64)
    }

    fn binary(&self, path: &[u32]) -> Binary<'_> {
        match self.message.binary(path) {
            Binary::Octets(octets) if self.has_spans => {
                Binary::Span { length: octets.len() as u64, has_nul: octets.contains(&0) }
            }
            other => other,
        }
    }
}
