//! Attacks on the real binary, as a process with bounded memory. Under each attack the other listeners answer in
//! time and memory stays small; afterwards all loops rest.
//!
//! `MAILAPI_ATTACKS_BINARY=target/release/mailapi cargo test --release --test attacks` runs them in full size.

#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod bodies;
mod connections;
mod embedded_host;
mod hostile_imap;
mod reading;
