//! The IMAP listener over real sockets.

mod binary;
mod bytes;
mod client;
mod compressed;
mod counters;
mod dialogs;
mod like_dovecot;
mod limits;
mod news;
mod object_ids;
mod previews;
mod resync;
mod rev2;
mod save_dates;
mod searching;
mod test_server;
mod with_the_api;
