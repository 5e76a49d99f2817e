//! Whole sessions against an in-memory host.

mod against_imap_codec;
mod any_input;
mod client_against_imap_codec;
mod client_and_server;
mod client_any_input;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/src/cut.rs"]
mod cut;
mod dialogs;
mod gone;
#[path = "../../../../fuzz/src/hostile_message.rs"]
mod hostile_message;
#[path = "../../../../fuzz/src/imap_client.rs"]
mod imap_client;
#[path = "../../../../fuzz/src/imap_session.rs"]
mod imap_session;
mod memory_host;
mod oracle;
#[path = "../../../../fuzz/src/script.rs"]
mod script;
mod seeds;
