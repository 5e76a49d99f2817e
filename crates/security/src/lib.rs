//! Looks for signs of fraud in a message: forged senders, misleading links, dangerous files.
//!
//! [`analyze`] is a pure function. It makes no request and reads no database; the caller gives what is known ([`Surroundings`]). Each sign
//! has evidence that a person can check, and the verdict follows from the signs alone. The time is linear in the size of
//! the message, and the memory is bounded ([`bounds`]).

pub mod bounds;
mod files;
mod links;
mod lookalike;
mod page;
mod reach;
mod report;
mod results;
mod sender;
mod sign;

use std::io;
use std::sync::Arc;

use mailapi_backend::mime::MessageStructure;
use mailapi_model::Blob;

pub use lookalike::OwnNames;
pub use report::{
    AnalyzedFile, AnalyzedLink, AnalyzedSender, ContentFacts, FoundSign, ReadResult, ReadResults, ResultSource,
    SecurityReport, SpamResult, Verdict,
};
pub use sign::{SecuritySign, Severity};

use report::Findings;

/// What is known about the mailbox that has the message.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The domains of this installation, which others imitate.
    pub own_names: Arc<OwnNames>,
    /// The name by which this installation signs the results of its checks (RFC 8601 section 2.5).
    pub own_checker: Option<String>,
}

/// Analyzes a message. Blocks while it reads the message.
///
/// # Errors
/// When the message cannot be read.
pub fn analyze(message: &Blob, surroundings: &Surroundings) -> io::Result<SecurityReport> {
    let structure = MessageStructure::of_bytes(message)?;
    let block = structure.header().within(message).to_bytes()?;
    let mut findings = Findings::default();
    findings.is_partial = reach::exceeds_the_reader(message)?;
    let results = results::read(&block, surroundings, &mut findings);
    let sender = sender::examine(&block, surroundings, &mut findings);
    let pages = page::of_bodies(message, &structure, &mut findings)?;
    let content = page::facts(&pages, &mut findings);
    let links = links::examine(pages, surroundings, &mut findings);
    let files = files::examine(message, &structure, &mut findings)?;
    let spam = results::spam(&block, results.source);
    Ok(SecurityReport { spam, ..findings.into_report(results, sender, links, files, content) })
}
