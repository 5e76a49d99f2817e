//! See `src/smtp_client.rs`.
#![no_main]

#[path = "../src/script.rs"]
mod script;
#[path = "../src/smtp_client.rs"]
mod smtp_client;

libfuzzer_sys::fuzz_target!(|input: &[u8]| smtp_client::check(input));
