//! Time and size of a first installation: a clean release build, and its binary.

use std::process::Command;
use std::time::Instant;

use crate::outcome::{Failure, Outcome};
use crate::process::Process;
use crate::report::{Row, Unit};
use crate::server::Product;

const LARGEST: f64 = 34.0 * 1024.0 * 1024.0;
const LONGEST: f64 = 6.0 * 60.0;
/// The number of processors that the goal refers to.
const PROCESSORS: f64 = 2.0;

/// The size of the binary and, if cargo started this program, the time of a clean build.
pub(super) fn measure(product: &Product) -> Outcome<Vec<Row>> {
    let size = std::fs::metadata(product.binary())?.len();
    let mut rows = vec![Row::at_most("binary", Unit::Blob, size as f64, LARGEST)];
    if let Some(cargo) = std::env::var_os("CARGO") {
        // An empty target directory makes it a clean build.
        let target = tempfile::tempdir()?;
        let (began, cpu_before) = (Instant::now(), Process::Own.cpu_of_children()?);
        let mut command = Command::new(cargo);
        command.args(["build", "--release", "--quiet", "--package", "mailapi"]);
        if !command.env("CARGO_TARGET_DIR", target.path()).status()?.success() {
            return Err(Failure::new("the product cannot be built"));
        }
        let cpu = (Process::Own.cpu_of_children()? - cpu_before).as_secs_f64();
        let wall = began.elapsed().as_secs_f64() / 60.0;
        let case = format!("clean release build: processor time over 2 processors ({wall:.1} minutes passed)");
        rows.push(Row::at_most(&case, Unit::Minutes, cpu / PROCESSORS, LONGEST));
    }
    Ok(rows)
}
