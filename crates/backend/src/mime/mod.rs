//! Reads messages: selects bodies and attachments, and interprets header fields. All backends use this
//! module, so that a message looks the same in every mail server.
//!
//! [`MessageStructure::of`] parses a message once. A store keeps [`MessageStructure::to_bytes`] with the message, and uses it to
//! list, read and download. If a mail server describes the parts itself (BODYSTRUCTURE),
//! [`DescribedMessage::of`] makes the same selection from its description. [`SearchableText`] is the text
//! that searches cover.
//!
//! No message is rejected: every input gives a result, in time linear to its size.

mod addresses;
mod charset;
mod continued;
mod date;
mod described;
mod encoded_word;
mod fields;
mod filename;
mod fold;
mod header;
mod html;
mod iso2022;
mod limits;
mod message_structure;
mod parameters;
mod plain;
mod raw_octets;
mod recipient;
mod returned_mail;
mod search;
mod selection;
mod seven_bit;
mod shifted;
mod source;
mod stored;
mod structure;
mod text_parts;
mod transfer;
mod tree;

pub use addresses::AddressEntry;
pub use described::{DescribedAttachment, DescribedBody, DescribedMessage, DescribedParameter, DescribedPart};
pub use fields::header_lines;
pub use fold::{comparable, fold};
pub use header::{Header, WrittenParameters};
pub use html::text_of as html_text;
pub use limits::Limits;
pub use message_structure::{AttachmentPart, BodyPart, MessageStructure, PartSpan, header_block, headers};
pub use recipient::recipient_of;
pub use returned_mail::{
    NoticeSummary, ReturnedAction, ReturnedMail, ReturnedReport, delivered_to, returned_mail, returned_mail_in,
};
pub use search::{SearchableText, beginning, beginning_of, matches, snippet};
pub use selection::BodyRole;
pub use seven_bit::{ConversionError, in_seven_bits, with_ascii_header};
pub use stored::MessageStructureError;
pub use text_parts::{any_text, may_hold_text};
pub use transfer::{TransferDecoder, TransferEncoding, decode};
pub use tree::{PartTree, PartTreeContent};
