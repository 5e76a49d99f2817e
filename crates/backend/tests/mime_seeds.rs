//! The rules of the fuzz target, checked for its seeds. `.ci/fuzz` searches for inputs that break them.

#[path = "../../../fuzz/src/mime.rs"]
mod mime;
#[path = "../../../fuzz/src/script.rs"]
mod script;

use std::fs;
use std::path::Path;

#[test]
fn every_seed_is_read_by_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mime");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        mime::check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the seeds are missing");
}
