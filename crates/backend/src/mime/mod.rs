//! Reading messages: which part is the body, which leaves are attachments, what a header says. Every backend reads
//! through this module, so that a message looks the same wherever it lies.
//!
//! [`MessageStructure::of`] takes a message apart once; a store keeps [`MessageStructure::to_bytes`] beside the message and then lists,
//! reads and downloads by it. Where a mail server describes the parts itself (BODYSTRUCTURE), [`DescribedMessage::of`] makes the
//! same choice from its description. [`SearchableText`] is what a search looks into. Nothing here refuses a message: whatever
//! its sender did to it, there is a result, in time that grows with the size of the message and no faster.

mod addresses;
mod charset;
mod described;
mod encoded_word;
mod fields;
mod filename;
mod fold;
mod header;
mod html;
mod limits;
mod message_structure;
mod parameters;
mod plain;
mod returned_mail;
mod search;
mod selection;
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
pub use limits::Limits;
pub use message_structure::{AttachmentPart, BodyPart, MessageStructure, PartSpan, header_block, headers};
pub use returned_mail::{ReturnedAction, ReturnedReport, delivered_to, returned_mail, returned_mail_in};
pub use search::{SNIPPET_CHARACTERS, SearchableText, matches, snippet};
pub use stored::MessageStructureError;
pub use text_parts::{any_text, may_hold_text};
pub use transfer::{TransferDecoder, TransferEncoding, decode};
pub use tree::{PartTree, PartTreeContent};
