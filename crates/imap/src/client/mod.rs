//! The client side, without sockets: commands in, octets out; octets in, typed responses out.
//!
//! A [`Connection`] has one command in flight, or two pipelined ones. Its caller writes what
//! [`Connection::take_output`] returns, feeds what the server sends, and polls until [`Event::Done`]. Changes by
//! other clients may arrive during any command, as [`Untagged`] data like everything else. A body can be streamed
//! ([`Command::streaming`]); a caller that does not read it to its end must close the connection.

mod asked;
mod body_structure;
mod capabilities;
mod command;
mod connection;
mod envelope;
mod fetch;
mod folder;
mod limits;
mod namespace;
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
pub use namespace::{Namespace, Namespaces};
pub use quota::QuotaResource;
pub use response::Untagged;
pub use search::{UidSet, UidSets};
pub use section::{Section, SectionText};
pub use status::{Code, Status, StatusResponse};
