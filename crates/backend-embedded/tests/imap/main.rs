//! The IMAP listener over real sockets.

mod client;
mod counters;
mod dialogs;
mod door;
mod like_dovecot;
mod limits;
mod news;
mod octets;
mod searching;
mod with_the_api;
