//! Whole sessions against a host in memory.

mod against_imap_codec;
mod any_input;
mod dialogs;
mod memory_host;
mod oracle;
