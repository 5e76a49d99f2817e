//! Reading a mailbox.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::Response;
use bytes::Bytes;
use mailapi_http::{ApiError, FolderPage, HttpState, PageForm, download, page};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Permission, Violations};
use mailapi_service::mailbox::{
    AnalyzeError, AttachmentInfo, Correspondent, FolderInfo, FolderScope, FoundSign, FullMessage, MailboxError,
    MessageSummary, SearchHit, SearchQuery, SearchText, Severity, Verdict,
};

use super::write;
use crate::answer::{Answer, render, see_other};
use crate::clean::{clean, host, links};
use crate::failure::Failure;
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::{self, Moment};

pub(super) const PATH: &str = "/console/mail";
const RIGHT: &str = "The mailbox, view_mailbox on its domain, and admins.";

/// The policy of a mail's own page, the third wall: it runs nothing, loads nothing, and is no page of this origin.
const MAIL_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; sandbox; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'",
);

/// Number of recipients that a list shows of a message.
const MOST_SHOWN: usize = 3;

#[derive(Template)]
#[template(path = "mailboxes.html")]
struct MailboxesPage {
    frame: Frame,
    own: Option<String>,
}

/// The way to a mailbox: the own one, or one that the caller names.
pub(crate) async fn choose(session: Session, Query(fields): Query) -> Answer {
    let grants = &session.caller.grants;
    let own = grants.mailbox().map(|mailbox| show::segment(mailbox.as_str()));
    let mut violations = Violations::none();
    let named = fields.parsed::<EmailAddress>("mailbox", &mut violations);
    if let Some(mailbox) = violations.or(Some(named))? {
        return Ok(see_other(&format!("{PATH}/{}", show::segment(mailbox.as_str()))));
    }
    let may_choose = grants.admin().is_ok() || grants.domains_with(Permission::ViewMailbox).next().is_some();
    match own {
        Some(own) if !may_choose => Ok(see_other(&format!("{PATH}/{own}"))),
        own => render(&MailboxesPage { frame: Frame::new(&session, "Mail"), own }),
    }
}

#[derive(Template)]
#[template(path = "mailbox.html")]
struct MailboxPage {
    frame: Frame,
    path: String,
    folders: Vec<Folder>,
    folder: String,
    q: String,
    /// The list of messages in HTML.
    list: Bytes,
    may_write: bool,
}

impl MailboxPage {
    fn list(&self) -> &str {
        std::str::from_utf8(&self.list).unwrap_or_default()
    }
}

/// The messages of a page, with its place in the folder.
#[derive(Template)]
#[template(path = "mail_list.html")]
struct MailList {
    rows: Vec<Row>,
    pager: Pager,
    is_search: bool,
}

struct Folder {
    name: String,
    link: String,
    unread: u64,
    is_current: bool,
}

struct Row {
    link: String,
    /// The author, or the recipients if the owner is the author.
    with: String,
    subject: String,
    snippet: String,
    at: Moment,
    is_unread: bool,
    has_attachments: bool,
    /// The form of a draft.
    continue_link: Option<String>,
}

impl Row {
    fn of(path: &str, mailbox: &EmailAddress, folder: &FolderName, message: MessageSummary) -> Self {
        Self {
            continue_link: None,
            link: link_to(path, message.uid, folder),
            with: other_side(mailbox, &message),
            subject: message.subject,
            snippet: String::new(),
            at: message.date.into(),
            is_unread: !message.flags.iter().any(|flag| flag.eq_ignore_ascii_case("\\Seen")),
            has_attachments: message.has_attachments,
        }
    }

    fn of_hit(path: &str, hit: SearchHit) -> Self {
        Self {
            link: link_to(path, hit.uid, &hit.folder),
            with: person(&hit.from),
            subject: hit.subject,
            snippet: hit.snippet,
            at: hit.date.into(),
            is_unread: false,
            has_attachments: false,
            continue_link: None,
        }
    }
}

fn person(person: &Correspondent) -> String {
    if person.name.is_empty() { person.email.clone() } else { person.name.clone() }
}

/// Returns the author, or the recipients if the owner is the author, as in the folder Sent.
fn other_side(mailbox: &EmailAddress, message: &MessageSummary) -> String {
    let is_own = message.from.email.parse::<EmailAddress>().is_ok_and(|author| author == *mailbox);
    if !is_own || message.to.is_empty() {
        return person(&message.from);
    }
    let shown: Vec<_> = message.to.iter().take(MOST_SHOWN).map(person).collect();
    let more = if message.to.len() > MOST_SHOWN { ", …" } else { "" };
    format!("To {}{more}", shown.join(", "))
}

pub(super) fn folder_link(path: &str, folder: &FolderName) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    format!("{path}?{}", query.append_pair("folder", folder.as_str()).finish())
}

fn link_to(path: &str, uid: u32, folder: &FolderName) -> String {
    folder_link(&format!("{path}/{uid}"), folder)
}

/// `GET /mailbox/{email}/folders`, `/messages` and `/search`.
pub(crate) async fn list(
    State(state): State<HttpState>,
    session: Session,
    Path(email): Path<String>,
    Query(fields): Query,
) -> Answer {
    let mailbox = named(&session, &email)?;
    let path = format!("{PATH}/{}", show::segment(mailbox.as_str()));
    let folder = folder_in(&fields)?;
    let folders = state.service().list_folders(&session.caller, &mailbox).await?;
    let list = match fields.text("q") {
        "" => page_of(&state, &session, &mailbox, &folder, fields.page(), &path).await?,
        _ => found(&state, &session, &mailbox, &folder, &fields, &path).await?,
    };
    let frame = Frame::new(&session, mailbox.shown())
        .call("GET /mailbox/{email}/folders", RIGHT)
        .call("GET /mailbox/{email}/messages", RIGHT)
        .call("GET /mailbox/{email}/search", RIGHT);
    let tab = |info: FolderInfo| Folder {
        link: folder_link(&path, &info.name),
        is_current: info.name == folder,
        name: info.name.to_string(),
        unread: info.unread,
    };
    render(&MailboxPage {
        frame,
        folders: folders.into_iter().map(tab).collect(),
        folder: folder.to_string(),
        q: fields.text("q").to_owned(),
        list,
        may_write: session.caller.grants.may_send_as(&mailbox, true).is_ok(),
        path,
    })
}

/// The messages that contain a text.
async fn found(
    state: &HttpState,
    session: &Session,
    mailbox: &EmailAddress,
    folder: &FolderName,
    fields: &Fields,
    path: &str,
) -> Result<Bytes, Failure> {
    let text: SearchText = fields.required("q")?;
    let query = SearchQuery { text, scope: FolderScope::One(folder.clone()), page: fields.page() };
    let Listed { total, items } = state.service().search(&session.caller, mailbox, &query).await?;
    let pager = Pager::new(path, fields, fields.page(), items.len(), total);
    let rows = items.into_iter().map(|hit| Row::of_hit(path, hit)).collect();
    written(&MailList { rows, pager, is_search: true })
}

/// The messages of a folder. The list of an unchanged folder is not written again.
async fn page_of(
    state: &HttpState,
    session: &Session,
    mailbox: &EmailAddress,
    folder: &FolderName,
    page: Page,
    path: &str,
) -> Result<Bytes, Failure> {
    let reader = session.caller.grants.may_read(mailbox)?;
    let (Listed { total, items }, unwritten) = match state.folder_page(&reader, folder, page, PageForm::Html).await? {
        FolderPage::Written(list) => return Ok(list),
        FolderPage::Read(listed, unwritten) => (listed, unwritten),
    };
    let has_drafts = items.iter().any(is_draft);
    let may_continue = has_drafts && is_own_drafts(state, session, mailbox, folder).await?;
    let pager = Pager::new(path, &Fields::one("folder", folder.as_str()), page, items.len(), total);
    let row = |message: MessageSummary| Row {
        continue_link: (may_continue && is_draft(&message)).then(|| write::link(session, mailbox, message.uid)),
        ..Row::of(path, mailbox, folder, message)
    };
    let list = written(&MailList { rows: items.into_iter().map(row).collect(), pager, is_search: false })?;
    // Callers have different links to drafts.
    if !has_drafts {
        state.cache_page(unwritten, list.clone());
    }
    Ok(list)
}

fn written(list: &MailList) -> Result<Bytes, Failure> {
    Ok(list.render().map_err(Failure::template)?.into())
}

pub(super) fn is_draft(message: &MessageSummary) -> bool {
    message.flags.iter().any(|flag| flag.eq_ignore_ascii_case("\\Draft"))
}

/// Whether the folder is the one for drafts of a mailbox whose drafts the caller may change.
async fn is_own_drafts(
    state: &HttpState,
    session: &Session,
    mailbox: &EmailAddress,
    folder: &FolderName,
) -> Result<bool, Failure> {
    let service = state.service();
    if service.may_manage_drafts(&session.caller, mailbox).is_err() {
        return Ok(false);
    }
    Ok(service.drafts_folder(&session.caller, mailbox).await?.as_ref() == Some(folder))
}

#[derive(Template)]
#[template(path = "mail.html")]
struct MailPage {
    frame: Frame,
    back_link: String,
    folder: String,
    from: Correspondent,
    to: String,
    cc: String,
    at: Moment,
    band: SecurityBand,
    text: Option<String>,
    /// Whether the message has more text than the page.
    is_cut: bool,
    frame_link: Option<String>,
    links: Vec<ShownLink>,
    is_unshown: bool,
    headers: Vec<(String, String)>,
    attachments: Vec<Attachment>,
    raw_link: String,
    reply_link: Option<String>,
    continue_link: Option<String>,
}

/// Maximum size of the text that a page shows. In HTML it may be five times as long.
const MAX_SHOWN_TEXT: usize = 1024 * 1024;

/// Cuts a text that is too long to be shown. Returns whether it was.
fn cut(text: &mut String) -> bool {
    let is_long = text.len() > MAX_SHOWN_TEXT;
    text.truncate(text.floor_char_boundary(MAX_SHOWN_TEXT));
    text.shrink_to_fit();
    is_long
}

/// What the security analysis says above a message.
enum SecurityBand {
    /// Nothing: it is off, or found nothing that counts.
    Absent,
    /// The message could not be analyzed.
    Failed,
    /// The signs that count.
    Signs { is_dangerous: bool, signs: Vec<FoundSign> },
}

impl SecurityBand {
    async fn of(state: &HttpState, session: &Session, place: (&EmailAddress, &FolderName, u32)) -> Self {
        let (mailbox, folder, uid) = place;
        let report = match state.service().analyze_message(&session.caller, mailbox, folder, uid).await {
            Ok(report) => report,
            Err(AnalyzeError::Off) => return Self::Absent,
            Err(error) => {
                tracing::warn!(%error, "security analysis failed");
                return Self::Failed;
            }
        };
        let is_dangerous = report.verdict == Verdict::Dangerous;
        if !is_dangerous && report.verdict != Verdict::Suspicious {
            return Self::Absent;
        }
        let counts = |reason: &FoundSign| reason.sign.severity() > Severity::Note;
        Self::Signs { is_dangerous, signs: report.reasons.into_iter().filter(counts).collect() }
    }
}

struct ShownLink {
    host: String,
    address: String,
}

struct Attachment {
    name: String,
    link: String,
    content_type: String,
    size: String,
}

/// `GET /mailbox/{email}/messages/{uid}`.
pub(crate) async fn show(
    State(state): State<HttpState>,
    session: Session,
    Path((email, uid)): Path<(String, String)>,
    Query(fields): Query,
) -> Answer {
    let (mailbox, folder) = (named(&session, &email)?, folder_in(&fields)?);
    let uid = uid_in(&uid)?;
    let message = state.service().read_message(&session.caller, &mailbox, &folder, uid).await?;
    let band = SecurityBand::of(&state, &session, (&mailbox, &folder, uid)).await;
    let path = format!("{PATH}/{}", show::segment(mailbox.as_str()));
    let FullMessage { summary, cc, headers, mut text, html, attachments } = message;
    let is_cut = text.as_mut().is_some_and(cut);
    let cleaned = match html.as_deref() {
        Some(html) => in_background(html.to_owned()).await?,
        None => None,
    };
    let is_unshown = html.is_some() && cleaned.is_none();
    let part = |name: &str| link_to(&path, uid, &folder).replacen('?', &format!("/{name}?"), 1);
    let frame =
        Frame::new(&session, if summary.subject.is_empty() { "(no subject)" } else { summary.subject.as_str() })
            .call("GET /mailbox/{email}/messages/{uid}", RIGHT)
            .call("GET /mailbox/{email}/messages/{uid}/security", RIGHT)
            .call("GET /mailbox/{email}/messages/{uid}/raw", RIGHT)
            .call("GET /mailbox/{email}/messages/{uid}/attachment/{index}", RIGHT);
    let file = |info: AttachmentInfo| Attachment {
        link: part(&format!("attachment/{}", info.index)),
        name: info.filename,
        content_type: info.content_type,
        size: show::bytes(info.size),
    };
    let may_write = session.caller.grants.may_send_as(&mailbox, true).is_ok();
    let may_continue = is_draft(&summary) && is_own_drafts(&state, &session, &mailbox, &folder).await?;
    let shown = |link: String| ShownLink { host: host(&link).to_owned(), address: link };
    render(&MailPage {
        frame,
        folder: folder.to_string(),
        to: people(&summary.to),
        cc: people(&cc),
        at: summary.date.into(),
        band,
        links: cleaned.as_deref().map(links).unwrap_or_default().into_iter().map(shown).collect(),
        frame_link: cleaned.map(|_| part("html")),
        text,
        is_cut,
        is_unshown,
        headers,
        attachments: attachments.into_iter().map(file).collect(),
        raw_link: part("raw"),
        reply_link: (may_write && !may_continue).then(|| reply(&mailbox, &summary)),
        continue_link: may_continue.then(|| write::link(&session, &mailbox, uid)),
        from: summary.from,
        back_link: folder_link(&path, &folder),
    })
}

fn people(people: &[Correspondent]) -> String {
    let one = |person: &Correspondent| match person.name.is_empty() {
        true => person.email.clone(),
        false => format!("{} <{}>", person.name, person.email),
    };
    people.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn reply(mailbox: &EmailAddress, message: &MessageSummary) -> String {
    let subject = &message.subject;
    let is_reply = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    let subject = if is_reply { subject.clone() } else { format!("Re: {subject}") };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("from", mailbox.as_str()).append_pair("to", &message.from.email);
    query.append_pair("subject", &subject).append_pair("in_reply_to", &message.message_id);
    format!("/console/write?{}", query.finish())
}

/// The HTML of a message, for the frame on its page.
pub(crate) async fn html(
    State(state): State<HttpState>,
    session: Session,
    Path((email, uid)): Path<(String, String)>,
    Query(fields): Query,
) -> Answer {
    let (mailbox, folder) = (named(&session, &email)?, folder_in(&fields)?);
    let message = state.service().read_message(&session.caller, &mailbox, &folder, uid_in(&uid)?).await?;
    let html = message.html.ok_or_else(Failure::not_found)?;
    let cleaned = in_background(html).await?.ok_or_else(Failure::not_found)?;
    Ok(framed(&cleaned))
}

fn framed(cleaned: &str) -> Response {
    const HEAD: &str = "<!DOCTYPE html><html lang=\"und\"><head><meta charset=\"utf-8\"><title>Message</title><style>\
        body{font:16px/1.5 system-ui,sans-serif;color:#1b2430;background:#fff;margin:1rem;overflow-wrap:anywhere}\
        img{display:inline-block;padding:.1em .4em;border:1px dashed #8a94a1}table{max-width:100%}\
        </style></head><body>";
    let mut response = page("text/html; charset=utf-8", format!("{HEAD}{cleaned}</body></html>").into());
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, MAIL_POLICY);
    response
}

/// Parsing takes long for large mail, so it must not delay other requests.
async fn in_background(html: String) -> Result<Option<String>, Failure> {
    let cleaned = tokio::task::spawn_blocking(move || clean(&html)).await;
    cleaned.map_err(|error| Failure::unforeseen(&error))
}

/// `GET /mailbox/{email}/messages/{uid}/raw`.
pub(crate) async fn raw(
    State(state): State<HttpState>,
    session: Session,
    Path((email, uid)): Path<(String, String)>,
    Query(fields): Query,
) -> Answer {
    let (mailbox, folder, uid) = (named(&session, &email)?, folder_in(&fields)?, uid_in(&uid)?);
    let opened = state.service().download_raw(&session.caller, &mailbox, &folder, uid).await?;
    Ok(download(UNKNOWN_TYPE, &format!("{uid}.eml"), opened.size, opened.content))
}

/// Browsers show no file of this type.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// `GET /mailbox/{email}/messages/{uid}/attachment/{index}`.
pub(crate) async fn attachment(
    State(state): State<HttpState>,
    session: Session,
    Path((email, uid, index)): Path<(String, String, String)>,
    Query(fields): Query,
) -> Answer {
    let (mailbox, folder, uid) = (named(&session, &email)?, folder_in(&fields)?, uid_in(&uid)?);
    let index: u32 = index.parse().map_err(|_| ApiError::from(MailboxError::NoSuchAttachment))?;
    let opened = state.service().download_attachment(&session.caller, &mailbox, &folder, uid, index).await?;
    Ok(download(UNKNOWN_TYPE, &opened.info.filename, opened.info.size, opened.content))
}

/// The mailbox in the path, if the caller may read it.
fn named(session: &Session, email: &str) -> Result<EmailAddress, Failure> {
    let mailbox: EmailAddress = email.parse().map_err(|_| ApiError::from(MailboxError::NoSuchMailbox))?;
    session.caller.grants.may_read(&mailbox)?;
    Ok(mailbox)
}

fn folder_in(fields: &Fields) -> Result<FolderName, ApiError> {
    // A name may end with a space.
    match fields.exact("folder") {
        "" => Ok(FolderName::inbox()),
        name => name.parse().map_err(|_| MailboxError::NoSuchFolder.into()),
    }
}

fn uid_in(text: &str) -> Result<u32, ApiError> {
    text.parse().map_err(|_| MailboxError::NoSuchMessage.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_end_with_a_space() {
        let folder = |name: &str| folder_in(&Fields::one("folder", name)).unwrap();
        assert_eq!((folder("a b ").as_str(), folder("").as_str()), ("a b ", "INBOX"));
    }
}
