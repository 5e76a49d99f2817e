//! See `src/smtp_session.rs`.
#![no_main]

#[path = "../src/cut.rs"]
mod cut;
#[path = "../src/heap.rs"]
mod heap;
#[path = "../src/script.rs"]
mod script;
#[path = "../src/smtp_session.rs"]
mod smtp_session;

libfuzzer_sys::fuzz_target!(|input: &[u8]| smtp_session::check(input, heap::used));
