//! The MIME structure that FETCH returns. The host parses MIME and fills these plain types; the encoders write
//! them.

mod body_structure;
mod envelope;
mod header_fields;
mod layout;

pub use body_structure::{BodyStructure, Disposition, Extension, Multipart, SinglePart, SinglePartKind};
pub use envelope::{Address, Envelope};
pub use header_fields::header_fields;
pub use layout::{PartContent, PartLayout, PartRange};
