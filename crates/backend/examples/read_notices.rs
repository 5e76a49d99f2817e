//! Prints the failures that the reader of notices finds in files: `.ci/bounces` compares them with those that a corpus
//! expects.

use std::io::Write as _;
use std::{env, fs, io};

use mailapi_backend::mime::{ReturnedAction, returned_mail};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for path in env::args().skip(1) {
        writeln!(out, "file\t{path}")?;
        let reports = returned_mail(&fs::read(&path)?).reports;
        for report in reports.iter().filter(|report| report.action == ReturnedAction::Failed) {
            let behind = report.final_recipient.as_ref().map(|tried| tried.as_str()).unwrap_or_default();
            writeln!(out, "failed\t{}\t{behind}", report.recipient.as_str())?;
        }
    }
    Ok(())
}
