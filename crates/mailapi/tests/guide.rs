//! The guide docs/operating.md, as `.ci/debian12` and `.ci/debian13` last ran it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/guide");

/// Tests of `./test` do not run the guide on its systems, so a change of the page or of a printed file must not go
/// unnoticed.
#[test]
fn what_the_guide_prints_was_run_on_both_versions_of_debian() {
    let script = Path::new(SCRIPTS).join("printed");
    let output =
        Command::new(script).arg(env!("CARGO_BIN_EXE_mailapi")).output().expect("bash and python3 are installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut printed = String::new();
    for byte in Sha256::digest(&output.stdout) {
        write!(printed, "{byte:02x}").unwrap();
    }
    for version in ["12", "13"] {
        let checked = fs::read_to_string(Path::new(SCRIPTS).join(format!("checked-{version}"))).unwrap_or_default();
        assert_eq!(
            checked.trim(),
            printed,
            "docs/operating.md or a file that `mailapi config` prints has changed: run .ci/debian{version}, and commit \
             .ci/guide/checked-{version}"
        );
    }
}
