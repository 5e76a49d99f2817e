//! Analyzes the messages in files: `signs FILE...`, or the files that the standard input names. Writes a line for each: the verdict,
//! the score, microseconds, the codes of its signs, and the file. `.ci/signs` makes tables of them.

use std::io::{self, BufRead, Write};
use std::time::Instant;

use mailapi_model::Blob;
use mailapi_security::{SecuritySign, Surroundings, analyze};

fn main() -> io::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let files: Vec<String> =
        if named.is_empty() { io::stdin().lock().lines().collect::<Result<_, _>>()? } else { named };
    let surroundings = Surroundings::default();
    let mut output = io::stdout().lock();
    for file in files {
        let message = Blob::from(std::fs::read(&file)?);
        let begun = Instant::now();
        let report = analyze(&message, &surroundings)?;
        let micros = begun.elapsed().as_micros();
        let codes: Vec<_> = report.reasons.iter().map(|reason| reason.sign).map(SecuritySign::code).collect();
        let (verdict, score, codes) = (report.verdict.as_str(), report.score, codes.join(","));
        writeln!(output, "{verdict}\t{score}\t{micros}\t{codes}\t{file}")?;
    }
    Ok(())
}
