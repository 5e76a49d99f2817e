//! See `src/imap_client.rs`.
#![no_main]

#[path = "../src/cut.rs"]
mod cut;
#[path = "../src/heap.rs"]
mod heap;
#[path = "../src/imap_client.rs"]
mod imap_client;
#[path = "../src/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|input: &[u8]| imap_client::check(input, heap::used));
