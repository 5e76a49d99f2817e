//! Log-ins to the operator's IMAP server, kept and shared.
//!
//! A log-in costs the server a hundred times what a FETCH does, so connections are kept per mailbox, with the folder that
//! was last read still open, and the least recently used one goes first. All of them log in as a master user. Work on
//! a connection is a [`Job`]: when a kept connection turns out to be dead, the job runs once more on a new one and
//! nobody notices. A connection on which an answer was not read to its end is closed, never kept.

mod connection;
mod connection_slots;
mod dial;
mod error;
mod job;
mod pool;
mod pooled_connection;
mod settings;
mod stream;

pub use pool::ImapPool;
pub use settings::ImapSettings;

pub(crate) use connection::{FolderState, ImapConnection, OpenFolder, is_of, refused_folder};
pub(crate) use error::ImapError;
pub(crate) use job::Job;
pub(crate) use pooled_connection::PooledConnection;
