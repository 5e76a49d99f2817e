//! See `src/imap_session.rs`.
#![no_main]

#[path = "../src/cut.rs"]
mod cut;
#[path = "../src/heap.rs"]
mod heap;
#[path = "../src/hostile_message.rs"]
mod hostile_message;
#[path = "../src/imap_session.rs"]
mod imap_session;
#[allow(dead_code, reason = "the tests of the crate use all of it")]
#[path = "../../crates/imap/tests/session/memory_host.rs"]
mod memory_host;
#[path = "../src/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|input: &[u8]| imap_session::check(input, heap::used));
