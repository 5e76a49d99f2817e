//! The server side.

pub mod command;
mod encode;
pub mod mime;
pub mod session;
pub mod view;

pub use encode::fetch::MessageSource;
pub use encode::list::{Folder, SpecialUse};
pub use encode::quota::{Quota, Usage};
pub use encode::status::MailboxStatus;
