//! The IMAP listener over real sockets.

mod bytes;
mod client;
mod counters;
mod dialogs;
mod like_dovecot;
mod limits;
mod news;
mod searching;
mod test_server;
mod with_the_api;
