//! The rules of the fuzz targets, checked for their seeds. `.ci/fuzz` searches for inputs that break them.

#[path = "../../../fuzz/src/script.rs"]
mod script;
#[path = "../../../fuzz/src/smtp_client.rs"]
mod smtp_client;
#[path = "../../../fuzz/src/smtp_session.rs"]
mod smtp_session;

use std::fs;
use std::path::Path;

fn for_each_seed(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 15, "the seeds are missing");
}

#[test]
fn the_server_keeps_its_rules_for_every_seed() {
    for_each_seed("smtp_session", |input| smtp_session::check(input, || 0));
}

#[test]
fn the_client_keeps_its_rules_for_every_seed() {
    for_each_seed("smtp_client", smtp_client::check);
}
