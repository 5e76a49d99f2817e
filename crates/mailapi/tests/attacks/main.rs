//! Attacks on the real binary, as a process with bounded memory. Under each attack the other listeners answer in
//! time and memory stays small; afterwards all loops rest.
//!
//! Their probes have time limits, so a plain `cargo test` ignores them and `./test` runs them alone.
//! `MAILAPI_ATTACKS_BINARY=target/release/mailapi cargo test --test attacks -- --ignored` runs them in full size.

#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod bodies;
mod connections;
mod embedded_host;
mod encrypted;
mod greylist;
mod hanging_receivers;
mod hostile_imap;
mod reading;
mod unfinished;
