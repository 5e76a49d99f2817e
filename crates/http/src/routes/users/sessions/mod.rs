//! Sessions of a mailbox.

pub(super) mod end;
pub(super) mod list;
