//! What FETCH shows of a message's MIME structure. Parsing MIME is the host's part: it fills these
//! plain types, and the encoders write them.

mod body_structure;
mod envelope;
mod header_fields;
mod layout;

pub use body_structure::{BodyStructure, Disposition, Extension, Multipart, SinglePart, SinglePartKind};
pub use envelope::{Address, Envelope};
pub use header_fields::header_fields;
pub use layout::{PartContent, PartLayout, PartRange};
