//! Looks for signs of fraud in a message: forged senders, misleading links, dangerous files.
//!
//! [`analyze`] is a pure function. It makes no request and reads no database; the caller gives what is known ([`Surroundings`]). Each sign
//! has evidence that a person can check, and the verdict follows from the signs alone. The time is linear in the size of
//! the message, and the memory is bounded ([`bounds`]).

mod ambiguous;
pub mod bounds;
mod carried;
mod codes;
mod correspondents;
mod files;
mod links;
mod lookalike;
mod page;
mod reach;
mod report;
mod results;
mod sender;
mod sign;
mod style;
mod uuencoded;

use std::io;
use std::sync::Arc;

use mailapi_backend::mime::MessageStructure;
use mailapi_model::Blob;

pub use correspondents::Correspondent;
pub use lookalike::KnownNames;
pub use report::{
    AnalyzedFile, AnalyzedLink, AnalyzedSender, ContentFacts, FoundSign, ReadResult, ReadResults, ResultSource,
    SecurityReport, SpamResult, Verdict,
};
pub use sign::{SecuritySign, Severity};

use correspondents::KnownPeople;
use files::ExaminedFiles;
use page::Bodies;
use report::Findings;

/// What is known about the mailbox that has the message.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The domains of this installation, which others imitate.
    pub own_names: Arc<KnownNames>,
    /// The name by which this installation signs the results of its checks (RFC 8601 section 2.5).
    pub own_checker: Option<String>,
    /// People that the mailbox exchanges mail with, the most important first; at most [`bounds::CORRESPONDENTS`] count.
    pub correspondents: Vec<Correspondent>,
}

/// Analyzes a message. Blocks while it reads the message.
///
/// # Errors
/// When the message cannot be read.
pub fn analyze(message: &Blob, surroundings: &Surroundings) -> io::Result<SecurityReport> {
    let structure = MessageStructure::of_bytes(message)?;
    let block = structure.header().within(message).to_bytes()?;
    let mut findings = Findings::default();
    let results = results::read(&block, surroundings, &mut findings);
    let people = KnownPeople::of(surroundings);
    let sender = sender::examine(&block, surroundings, &people, &mut findings);
    let messages = carried::all(message, structure, &mut findings)?;
    for carried in &messages {
        reach::examine(&carried.message, &mut findings)?;
    }
    let Bodies { pages, encoded_files, .. } = Bodies::of(&messages, &mut findings)?;
    let content = page::facts(&pages, &mut findings);
    let ExaminedFiles { files, links } = files::examine(&messages, encoded_files, &mut findings)?;
    let links = pages.into_iter().flat_map(|page| page.links).chain(links);
    let links = links::examine(links, surroundings, &people, &mut findings);
    let spam = results::spam(&block, results.source);
    Ok(SecurityReport { spam, ..findings.into_report(results, sender, links, files, content) })
}
