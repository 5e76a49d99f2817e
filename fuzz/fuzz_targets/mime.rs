//! See `src/mime.rs`.
#![no_main]

#[path = "../src/mime.rs"]
mod mime;
#[path = "../src/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|input: &[u8]| mime::check(input));
