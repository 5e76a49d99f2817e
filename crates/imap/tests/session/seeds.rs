//! The rules of the fuzz targets, checked for their seeds. `.ci/fuzz` searches for inputs that break them.

use std::fs;
use std::path::Path;

use crate::{imap_client, imap_session};

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
    for_each_seed("imap_session", |input| imap_session::check(input, || 0));
}

#[test]
fn the_client_keeps_its_rules_for_every_seed() {
    for_each_seed("imap_client", |input| imap_client::check(input, || 0));
}
