//! The seeds in `fuzz/corpus`. The tests of the crates check the rules of each target for them; `.ci/fuzz` searches for
//! inputs that break a rule.

use std::fs;
use std::path::Path;

/// Checks every seed of a target, which has at least this many.
pub(crate) fn for_each_seed(target: &str, least: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= least, "the seeds are missing");
}
