//! The client's side, without sockets: commands in, octets out; octets in, typed responses out.
//!
//! A [`Connection`] has one command in flight at a time. Its host writes what
//! [`Connection::take_output`] gives, feeds what the server sends and polls until a command is
//! [`Event::Done`]. Changes that others made may be told inside any answer; they come as
//! [`Untagged`] data like everything else. A body may be had in pieces ([`Command::streaming`]);
//! who does not read such an answer to its end can only close the connection.

mod asked;
mod body_structure;
mod capabilities;
mod command;
mod connection;
mod envelope;
mod fetch;
mod folder;
mod limits;
mod quota;
mod response;
mod search;
mod section;
mod status;

pub use body_structure::{BodyStructure, MediaDetails, Multipart, Parameter, SinglePart};
pub use capabilities::Capabilities;
pub use command::{Command, FetchAttribute, StatusItem};
pub use connection::{ClientError, Connection, Event};
pub use envelope::{Address, Envelope};
pub use fetch::{FetchedMessage, FetchedSection};
pub use folder::{FolderStatus, ListedFolder};
pub use limits::ClientLimits;
pub use quota::QuotaResource;
pub use response::Untagged;
pub use search::UidSet;
pub use section::{Section, SectionText};
pub use status::{Code, Status, StatusResponse};
