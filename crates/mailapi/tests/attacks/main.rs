//! Attacks on the real binary, as a process with bounded memory: under each of them the other doors answer in time, its
//! memory stays small, and its loops rest afterwards.
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
