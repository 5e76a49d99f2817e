//! The IMAP listener over real sockets.

mod client;
mod counters;
mod dialogs;
mod like_dovecot;
mod limits;
mod news;
mod octets;
mod searching;
mod test_server;
mod with_the_api;
