//! The search index with a real Dovecot. It returns what reading every message would, whatever happens to the
//! mailbox, its files, and the process.

mod agreement;
mod bounds;
mod conversation;
#[path = "../mailboxes/fixture.rs"]
#[expect(dead_code, reason = "the mailbox stories use more of it")]
mod fixture;
mod indexed;
mod stories;
mod troubles;
