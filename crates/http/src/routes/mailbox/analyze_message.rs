//! `GET /mailbox/{email}/messages/{uid}/security`.

use axum::extract::State;
use mailapi_service::mailbox::{
    AnalyzedFile, AnalyzedLink, AnalyzedSender, FoundSign, ReadResult, ReadResults, SecurityReport, SpamResult,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{FolderParameter, folder_or_inbox, mailbox_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::{CheckedBy, SeverityName, SignCode, VerdictName};
use crate::state::HttpState;

/// What was found in a message.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityReport, example = json!({
    "verdict": "suspicious", "score": 30, "partial": false,
    "reasons": [{
        "code": "link_shows_other_host", "severity": "medium",
        "text": "The text of a link names another site than the one it leads to.",
        "evidence": ["www.bank.example leads to shop.example.net"]
    }],
    "authentication": {
        "source": "own", "spf": { "result": "pass", "domain": "shop.example.net" },
        "dkim": [{ "result": "pass", "domain": "shop.example.net" }],
        "dmarc": { "result": "pass", "domain": "shop.example.net" }, "arc": { "result": "none", "domain": null }
    },
    "spam": { "source": "own", "is_spam": false, "score": 1.25 },
    "sender": {
        "address": "news@shop.example.net", "reply_to_differs": false, "display_name_is_an_address": false,
        "lookalike_of": null, "first_contact": true
    },
    "links": [{
        "text": "www.bank.example", "url": "https://shop.example.net/", "host": "shop.example.net",
        "shown_host_differs": true, "punycode": false, "ip_host": false
    }],
    "attachments": [],
    "content": { "hidden_text": 0, "remote_images": 0, "forms": 0 }
}))]
pub(super) struct Report {
    /// What the reasons mean together.
    #[schema(value_type = VerdictName)]
    verdict: &'static str,
    /// Points of all reasons, 0 to 100: 5 for `low`, 30 for `medium`, 70 for `high`.
    #[schema(maximum = 100)]
    score: u8,
    /// Whether part of the message was not read, since it is encrypted or too large.
    partial: bool,
    /// Signs of fraud, the most severe first.
    reasons: Vec<Reason>,
    /// Results of the checks of the sender, from the topmost Authentication-Results header.
    authentication: Results,
    /// What a spam filter wrote into the message, which does not count; null without.
    #[schema(required)]
    spam: Option<Spam>,
    /// Sender.
    sender: Author,
    /// Links of the bodies, each once; at most 100.
    links: Vec<Link>,
    /// Attachments.
    attachments: Vec<File>,
    /// What the bodies contain.
    content: Content,
}

/// What was found in a message of a mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageSecurity)]
pub(crate) struct MessageAnalyzed {
    /// Always true.
    success: bool,
    /// IMAP UID of the message.
    #[schema(example = 1)]
    uid: u32,
    /// Folder name.
    #[schema(example = "INBOX")]
    folder: String,
    #[serde(flatten)]
    report: Report,
}

/// A sign of fraud.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityReason)]
struct Reason {
    /// Sign, for programs.
    #[schema(value_type = SignCode)]
    code: &'static str,
    /// How much it counts.
    #[schema(value_type = SeverityName)]
    severity: &'static str,
    /// What it means, for people.
    text: &'static str,
    /// Parts of the message in which it was seen: at most 5, of each up to 200 characters.
    evidence: Vec<String>,
}

/// Results of the checks of the sender.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityResults)]
struct Results {
    /// Who checked.
    #[schema(value_type = CheckedBy)]
    source: &'static str,
    /// SPF; null if it was not checked.
    #[schema(required)]
    spf: Option<CheckResult>,
    /// DKIM: one for each signature.
    dkim: Vec<CheckResult>,
    /// DMARC; null if it was not checked.
    #[schema(required)]
    dmarc: Option<CheckResult>,
    /// ARC; null if it was not checked.
    #[schema(required)]
    arc: Option<CheckResult>,
}

/// Result of a spam filter.
#[derive(Serialize, ToSchema)]
#[schema(as = SecuritySpam)]
struct Spam {
    /// Whose filter it is.
    #[schema(value_type = CheckedBy)]
    source: &'static str,
    /// Whether it calls the message spam.
    is_spam: bool,
    /// Its score; null if it names none.
    #[schema(required)]
    score: Option<f64>,
}

/// Result of one check.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityResult)]
struct CheckResult {
    /// Result in lower case, such as `pass`.
    result: String,
    /// Domain that it is about; null if the header names none.
    #[schema(required)]
    domain: Option<String>,
}

/// Sender of the message.
#[derive(Serialize, ToSchema)]
#[schema(as = SecuritySender)]
struct Author {
    /// Address as written; null if there is none.
    #[schema(required)]
    address: Option<String>,
    /// Whether a reply goes to another organization's domain.
    reply_to_differs: bool,
    /// Whether the display name is an address of another organization's domain.
    display_name_is_an_address: bool,
    /// Domain of this installation that the sender's domain imitates; null if there is none.
    #[schema(required)]
    lookalike_of: Option<String>,
    /// Whether the mailbox has no message of this sender and none to this sender; null if that is not known.
    #[schema(required)]
    first_contact: Option<bool>,
}

/// A link.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityLink)]
struct Link {
    /// Its text, up to 200 characters.
    text: String,
    /// Where it leads, up to 200 characters.
    url: String,
    /// Site that it leads to; empty if there is none.
    host: String,
    /// Whether the text names another organization's site.
    shown_host_differs: bool,
    /// Whether the name of the site has letters beyond ASCII.
    punycode: bool,
    /// Whether it leads to a number instead of a name.
    ip_host: bool,
}

/// An attachment.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityAttachment)]
struct File {
    /// Index, used in the download path. A file in an attached message has the index of that message.
    index: u32,
    /// File name.
    filename: String,
    /// Media type that the message names.
    declared_type: String,
    /// Media type that the bytes show; null if they show none.
    #[schema(required)]
    detected_type: Option<String>,
    /// Whether the bytes are of another kind than the file name says.
    mismatch: bool,
    /// Whether it is a program, or an archive with one.
    executable: bool,
    /// Whether it is a document with macros.
    macros: bool,
    /// Whether it is an archive with encrypted files.
    encrypted: bool,
    /// SHA-256 of the content, in hexadecimal; null if it was not opened.
    #[schema(required)]
    sha256: Option<String>,
}

/// What the bodies contain.
#[derive(Serialize, ToSchema)]
#[schema(as = SecurityContent)]
struct Content {
    /// Letters and digits of text that is not shown.
    hidden_text: usize,
    /// Sites from which images are loaded.
    remote_images: usize,
    /// Forms.
    forms: usize,
}

impl From<FoundSign> for Reason {
    fn from(FoundSign { sign, evidence }: FoundSign) -> Self {
        Self { code: sign.code(), severity: sign.severity().as_str(), text: sign.text(), evidence }
    }
}

impl From<ReadResult> for CheckResult {
    fn from(ReadResult { result, domain }: ReadResult) -> Self {
        Self { result, domain }
    }
}

impl From<ReadResults> for Results {
    fn from(results: ReadResults) -> Self {
        Self {
            source: results.source.as_str(),
            spf: results.spf.map(Into::into),
            dkim: results.dkim.into_iter().map(Into::into).collect(),
            dmarc: results.dmarc.map(Into::into),
            arc: results.arc.map(Into::into),
        }
    }
}

impl From<SpamResult> for Spam {
    fn from(SpamResult { source, is_spam, score }: SpamResult) -> Self {
        Self { source: source.as_str(), is_spam, score: score.map(|score| f64::from(score) / 100.0) }
    }
}

impl From<AnalyzedSender> for Author {
    fn from(sender: AnalyzedSender) -> Self {
        let AnalyzedSender { address, reply_to_differs, display_name_is_an_address, lookalike_of, first_contact } =
            sender;
        Self { address, reply_to_differs, display_name_is_an_address, lookalike_of, first_contact }
    }
}

impl From<AnalyzedLink> for Link {
    fn from(link: AnalyzedLink) -> Self {
        let AnalyzedLink { text, url, host, shown_host_differs, punycode, ip_host } = link;
        Self { text, url, host, shown_host_differs, punycode, ip_host }
    }
}

impl From<AnalyzedFile> for File {
    fn from(file: AnalyzedFile) -> Self {
        Self {
            index: file.index,
            filename: file.name,
            declared_type: file.declared_type,
            detected_type: file.detected_type,
            mismatch: file.mismatch,
            executable: file.executable,
            macros: file.macros,
            encrypted: file.encrypted,
            sha256: file.sha256,
        }
    }
}

impl From<SecurityReport> for Report {
    fn from(report: SecurityReport) -> Self {
        let SecurityReport { verdict, score, reasons, authentication, spam, sender, links, files, content, is_partial } =
            report;
        Self {
            verdict: verdict.as_str(),
            score,
            partial: is_partial,
            reasons: reasons.into_iter().map(Into::into).collect(),
            authentication: authentication.into(),
            spam: spam.map(Into::into),
            sender: sender.into(),
            links: links.into_iter().map(Into::into).collect(),
            attachments: files.into_iter().map(Into::into).collect(),
            content: Content {
                hidden_text: content.hidden_text,
                remote_images: content.remote_images,
                forms: content.forms,
            },
        }
    }
}

documented_errors!(
    Errors,
    documented,
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, ValidationError, AnalysisOff, ImapError,]
);

/// Look for signs of fraud in a message
///
/// Reads sender, links and attachments without any network. The setting `security.analysis` switches it on. For the
/// mailbox owner, callers with `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}/security", tag = "mailbox", operation_id = "analyze_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
        FolderParameter,
    ),
    responses((status = 200, description = "What was found.", body = MessageAnalyzed), Errors))]
pub(crate) async fn analyze_message(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<FolderParameter>,
) -> Result<Json<MessageAnalyzed>, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_or_inbox(query.read()?.folder)?;
    let uid = path.uid();
    let report = state.service().analyze_message(&caller, &mailbox, &folder, uid).await?;
    Ok(Json(MessageAnalyzed { success: true, uid, folder: folder.as_str().to_owned(), report: report.into() }))
}
