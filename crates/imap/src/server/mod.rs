//! The server side.

pub mod command;
mod encode;
mod messages;
pub mod mime;
mod object_id;
mod ordering;
pub mod session;
pub mod view;

pub use encode::fetch::{Binary, MessageSource};
pub use encode::list::{Folder, SpecialUse};
pub use encode::quota::{Quota, Usage};
pub use encode::status::MailboxStatus;
pub use object_id::ObjectId;
pub use ordering::{OrderFacts, Person};
