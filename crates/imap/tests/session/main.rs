//! Whole sessions against an in-memory host.

mod against_imap_codec;
mod any_input;
mod client_against_imap_codec;
mod client_and_server;
mod client_any_input;
mod dialogs;
mod gone;
mod memory_host;
mod oracle;
