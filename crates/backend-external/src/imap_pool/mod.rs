//! A pool of logged-in connections to the operator's IMAP server.
//!
//! A login costs the server about a hundred times as much as a FETCH. So connections are kept per mailbox, with the
//! last folder still open, and the least recently used one is closed first. All of them log in as a master user. Work
//! on a connection is a [`Job`]: if an idle connection turns out to be dead, the job runs once more on a new one. A
//! connection whose response was not read to the end is closed, never kept.

mod connection;
mod connection_slots;
mod dial;
mod error;
mod job;
mod pool;
mod pooled_connection;
mod remote;
mod remote_folders;
mod settings;
mod stream;

pub use pool::ImapPool;
pub use remote::{RemoteError, RemoteMailbox, RemoteMessage, RemoteSettings, RemoteUids};
pub use remote_folders::{RemoteFolder, RemoteFolderKind};
pub use settings::ImapSettings;

pub(crate) use connection::{ImapConnection, OpenFolder, is_of, refused_folder};
pub(crate) use error::ImapError;
pub(crate) use job::Job;
pub(crate) use pooled_connection::PooledConnection;
pub(crate) use settings::MAX_FOLDERS;
