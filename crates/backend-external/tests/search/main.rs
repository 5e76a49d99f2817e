//! The search index in front of a real Dovecot: it answers what reading every message would, whatever happens to the
//! mailbox, to its files, and to the process.

mod agreement;
mod bounds;
mod conversation;
#[path = "../mailboxes/fixture.rs"]
mod fixture;
mod indexed;
#[path = "../mailboxes/scripted.rs"]
mod scripted;
mod stories;
mod troubles;
