//! Sessions of a mailbox at the API and the console.

mod end;
mod list;
