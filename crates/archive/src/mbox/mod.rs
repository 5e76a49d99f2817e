//! The mbox format: messages one after another in one file, each after a `From ` line (RFC 4155). Lines that begin with
//! `From ` inside a message have a `>` before them; on reading, one is removed (the variant mboxrd).

mod headers;
mod labels;
mod read;
mod separator;
mod write;

pub use read::MboxReader;
pub(crate) use read::begins_mbox;
pub use write::MboxWriter;

/// The first header of our own exports. The three lines after it are for other programs, and not of the message.
const OWN_MARK: &str = "X-Mailapi-Export: ";

/// The lines after the mark.
const OWN_LINES: [&str; 3] = ["Status: ", "X-Status: ", "X-Keywords: "];
