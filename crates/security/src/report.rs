//! The result of an analysis.

use std::collections::BTreeMap;

use crate::bounds::{EVIDENCE_CHARS, EVIDENCE_PIECES};
use crate::sign::SecuritySign;

/// Points from which a message is dangerous.
const DANGEROUS: u8 = 70;
/// Points from which a message is suspicious.
const SUSPICIOUS: u8 = 30;

/// What the signs of a message mean together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No sign counts, or only some that honest mail has as well.
    Clean,
    /// A person should look before following a link or opening a file.
    Suspicious,
    /// Honest mail has next to never such signs.
    Dangerous,
    /// Nothing was found, and part of the message was not read.
    Unknown,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::Clean, Self::Suspicious, Self::Dangerous, Self::Unknown];

    /// The name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Suspicious => "suspicious",
            Self::Dangerous => "dangerous",
            Self::Unknown => "unknown",
        }
    }
}

/// What was found in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityReport {
    /// The verdict.
    pub verdict: Verdict,
    /// The points of all signs together, at most 100.
    pub score: u8,
    /// The signs, those that count most first.
    pub reasons: Vec<FoundSign>,
    /// The results of the checks that the message names.
    pub authentication: ReadResults,
    /// What a spam filter wrote into the message; `None` without.
    pub spam: Option<SpamResult>,
    /// The author.
    pub sender: AnalyzedSender,
    /// The links, each once.
    pub links: Vec<AnalyzedLink>,
    /// The attachments, in the order of the message.
    pub files: Vec<AnalyzedFile>,
    /// The bodies.
    pub content: ContentFacts,
    /// Whether part of the message exceeds the [bounds](crate::bounds) or is encrypted, and was not read.
    pub is_partial: bool,
}

impl SecurityReport {
    /// Notes whether the mailbox has no other message of the author.
    pub fn note_contact(&mut self, is_first: Option<bool>) {
        self.sender.first_contact = is_first;
        if is_first == Some(true) {
            let evidence = self.sender.address.iter().map(|address| shortened(address)).collect();
            // It counts least, so it comes last.
            self.reasons.push(FoundSign { sign: SecuritySign::FirstContact, evidence });
        }
    }
}

/// A sign, with what it was seen in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSign {
    /// The sign.
    pub sign: SecuritySign,
    /// Parts of the message to check it by, at most five; of each at most 200 characters.
    pub evidence: Vec<String>,
}

/// Who checked the author's domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultSource {
    /// This installation.
    Own,
    /// Another server, or a forger of the field.
    Header,
    /// The message was not checked.
    #[default]
    None,
}

impl ResultSource {
    /// All sources.
    pub const ALL: [Self; 3] = [Self::Own, Self::Header, Self::None];

    /// The name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Header => "header",
            Self::None => "none",
        }
    }
}

/// The result of one check, in lower case (RFC 8601 section 2.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// Such as `pass` or `fail`.
    pub result: String,
    /// The domain that it is about.
    pub domain: Option<String>,
}

/// The results of the topmost Authentication-Results field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadResults {
    /// Who wrote it.
    pub source: ResultSource,
    /// SPF.
    pub spf: Option<ReadResult>,
    /// DKIM, one for each signature.
    pub dkim: Vec<ReadResult>,
    /// DMARC.
    pub dmarc: Option<ReadResult>,
    /// ARC.
    pub arc: Option<ReadResult>,
}

/// What a spam filter wrote into the message. It does not count: the filter has its own threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpamResult {
    /// Whose filter it is: that of this installation, or another one, or a forger of the field.
    pub source: ResultSource,
    /// Whether it calls the message spam.
    pub is_spam: bool,
    /// Its score in hundredths; `None` if it names none.
    pub score: Option<i32>,
}

/// The author.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnalyzedSender {
    /// The address of the first author, as written.
    pub address: Option<String>,
    /// Whether a reply goes to another organization's domain.
    pub reply_to_differs: bool,
    /// Whether the name is an address of another organization's domain.
    pub display_name_is_an_address: bool,
    /// The own domain that the author's domain imitates.
    pub lookalike_of: Option<String>,
    /// Whether the mailbox has no other message of the author; `None` if that is not known.
    pub first_contact: Option<bool>,
}

/// A link of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzedLink {
    /// Its text, on one line.
    pub text: String,
    /// Where it leads.
    pub url: String,
    /// The site, as people read it; empty without one.
    pub host: String,
    /// Whether the text names another organization's site.
    pub shown_host_differs: bool,
    /// Whether the name of the site has letters beyond ASCII.
    pub punycode: bool,
    /// Whether it leads to a number.
    pub ip_host: bool,
}

/// An attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzedFile {
    /// The position, from 0, of the attachment that it is, or whose message contains it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The type that the message names.
    pub declared_type: String,
    /// The type that its bytes show; `None` if they show none.
    pub detected_type: Option<String>,
    /// Whether the bytes are of another kind than the name says.
    pub mismatch: bool,
    /// Whether it is a program, or an archive with one.
    pub executable: bool,
    /// Whether it is a document with macros.
    pub macros: bool,
    /// Whether it is an archive with encrypted files.
    pub encrypted: bool,
    /// The SHA-256 of its bytes, in hexadecimal; `None` if it was not opened.
    pub sha256: Option<String>,
}

/// What the bodies contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentFacts {
    /// Characters of text that HTML hides.
    pub hidden_text: usize,
    /// Images that are loaded from other sites.
    pub remote_images: usize,
    /// Forms.
    pub forms: usize,
}

/// The signs that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    signs: BTreeMap<SecuritySign, Vec<String>>,
    pub(crate) is_partial: bool,
}

impl Findings {
    /// Adds a sign. Equal evidence is listed once.
    pub(crate) fn add(&mut self, sign: SecuritySign, evidence: impl AsRef<str>) {
        let pieces = self.signs.entry(sign).or_default();
        let evidence = shortened(evidence.as_ref());
        if !evidence.is_empty() && pieces.len() < EVIDENCE_PIECES && !pieces.contains(&evidence) {
            pieces.push(evidence);
        }
    }

    pub(crate) fn into_report(
        self,
        authentication: ReadResults,
        sender: AnalyzedSender,
        links: Vec<AnalyzedLink>,
        files: Vec<AnalyzedFile>,
        content: ContentFacts,
    ) -> SecurityReport {
        let mut reasons: Vec<_> = self.signs.into_iter().map(|(sign, evidence)| FoundSign { sign, evidence }).collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.sign.severity()));
        let points = |sum: u8, reason: &FoundSign| sum.saturating_add(reason.sign.severity().points());
        let score = reasons.iter().fold(0, points).min(100);
        let verdict = match score {
            DANGEROUS.. => Verdict::Dangerous,
            SUSPICIOUS.. => Verdict::Suspicious,
            _ if self.is_partial => Verdict::Unknown,
            _ => Verdict::Clean,
        };
        SecurityReport {
            verdict,
            score,
            reasons,
            authentication,
            spam: None,
            sender,
            links,
            files,
            content,
            is_partial: self.is_partial,
        }
    }
}

/// Returns a text on one line, without control characters, at most [`EVIDENCE_CHARS`] long.
pub(crate) fn shortened(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let spaced = words.enumerate().flat_map(|(at, word)| (at > 0).then_some(' ').into_iter().chain(word.chars()));
    let mut line: Vec<char> = spaced.take(EVIDENCE_CHARS + 1).collect();
    if line.len() > EVIDENCE_CHARS {
        line.truncate(EVIDENCE_CHARS - 1);
        line.push('…');
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_evidence_is_shortened_to_one_line() {
        assert_eq!(shortened(" a \u{0}\tb\r\n"), "a b");
        assert_eq!(shortened(&"x".repeat(500)).chars().count(), EVIDENCE_CHARS);
        assert_eq!(shortened(&"x ".repeat(500)).chars().count(), EVIDENCE_CHARS);
        let exact = "x".repeat(EVIDENCE_CHARS);
        assert_eq!(shortened(&exact), exact);
    }

    #[test]
    fn the_verdict_follows_from_the_signs() {
        let verdict = |signs: &[SecuritySign], is_partial| {
            let mut findings = Findings { is_partial, ..Findings::default() };
            signs.iter().for_each(|sign| findings.add(*sign, "x"));
            let report = findings.into_report(
                ReadResults::default(),
                AnalyzedSender::default(),
                vec![],
                vec![],
                ContentFacts::default(),
            );
            (report.verdict, report.score)
        };
        use SecuritySign::{EncryptedArchive, ExecutableFile, FirstContact, LinkRedirects, LinkToNumber, Macros};
        assert_eq!(verdict(&[], false), (Verdict::Clean, 0));
        assert_eq!(verdict(&[FirstContact, LinkRedirects], false), (Verdict::Clean, 5));
        assert_eq!(verdict(&[FirstContact], true), (Verdict::Unknown, 0));
        assert_eq!(verdict(&[Macros, Macros], true), (Verdict::Suspicious, 30));
        assert_eq!(verdict(&[Macros, LinkToNumber, LinkRedirects], false), (Verdict::Suspicious, 65));
        assert_eq!(verdict(&[Macros, LinkToNumber, EncryptedArchive], false), (Verdict::Dangerous, 90));
        assert_eq!(verdict(&[ExecutableFile, Macros, LinkToNumber], false), (Verdict::Dangerous, 100));
    }
}
