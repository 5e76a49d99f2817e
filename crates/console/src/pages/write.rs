//! Writing and sending a mail.

use std::fmt::Write as _;

use askama::Template;
use axum::extract::State;
use mailapi_http::{ApiError, HttpState};
use mailapi_model::{
    AttachmentFields, Draft, DraftFields, EmailAddress, MessageStatus, NamedAddress, Permission, Violations,
};
use mailapi_service::mail::{IdempotencyKey, SendError, SendRequest, Submitted};
use mailapi_service::mailbox::{DraftError, MailboxError, ReadError, SavedDraft};
use mailapi_service::{Caller, Service};

use super::stored_draft::{DraftPlace, MailForm, StoredDraft, kept};
use super::{mail, messages};
use crate::answer::{Answer, change, done, render, render_as};
use crate::failure::{Failure, in_words, with_retry_after};
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::session::Session;
use crate::show;
use crate::upload::Upload;

const PATH: &str = "/console/write";

#[derive(Template)]
#[template(path = "write.html")]
struct WritePage {
    frame: Frame,
    from: String,
    may_choose: bool,
    form: MailForm,
    draft: Option<DraftPlace>,
    /// Makes sure that a form that is sent twice sends one mail.
    key: String,
    /// Why the mail was neither sent nor saved.
    problem: Option<Problem>,
}

struct Problem {
    message: String,
    /// The names of fields, and what is wrong with them.
    details: Vec<(String, String)>,
    /// Whether the mail had files that the form cannot have again: new ones, or those of a draft that is gone.
    lacks_files: bool,
}

impl WritePage {
    fn new(session: &Session, author: Option<String>, form: MailForm, key: String) -> Self {
        let grants = &session.caller.grants;
        let own = grants.mailbox().map(|mailbox| mailbox.shown().to_owned());
        let may_choose =
            own.is_none() || grants.admin().is_ok() || grants.domains_with(Permission::SendMail).next().is_some();
        let from = author.filter(|_| may_choose).or(own).unwrap_or_default();
        let own_drafts = "The mailbox, and admins.";
        let frame = Frame::new(session, "Write")
            .call(
                "POST /mail/send",
                "Every caller: their own mailbox. send_mail adds a domain's users. Admins: addresses of active domains.",
            )
            .call("POST /mailbox/{email}/drafts", own_drafts)
            .call("DELETE /mailbox/{email}/drafts/{uid}", own_drafts);
        Self { frame, from, may_choose, form, draft: None, key, problem: None }
    }
}

/// A link to the form of a draft.
pub(super) fn link(session: &Session, mailbox: &EmailAddress, uid: u32) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("draft", &uid.to_string());
    if session.caller.grants.mailbox() != Some(mailbox) {
        query.append_pair("mailbox", mailbox.as_str());
    }
    format!("{PATH}?{}", query.finish())
}

/// The form of a new mail, or of a draft.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Query(fields): Query) -> Answer {
    let stored = match DraftPlace::named(&session, &fields)? {
        Some(place) => Some(StoredDraft::read(&state, &session, place).await?),
        None => None,
    };
    stored.as_ref().map_or(Ok(()), StoredDraft::check_length)?;
    let author = stored.as_ref().map_or_else(|| fields.optional("from"), |stored| Some(stored.author()));
    let form = stored.as_ref().map_or_else(|| MailForm::of_query(&fields), StoredDraft::form);
    let page = WritePage::new(&session, author, form, new_key(&state));
    render(&WritePage { draft: stored.map(|stored| stored.place), ..page })
}

/// `POST /mail/send`, or a change of the draft.
pub(crate) async fn act(State(state): State<HttpState>, session: Session, upload: Upload) -> Answer {
    let place = DraftPlace::named(&session, &upload.fields)?;
    let (typed, named, lacks_files) = (upload.fields.clone(), place.clone(), !upload.files.is_empty());
    let answer = match typed.text("act") {
        "save" => save(&state, &session, upload, place).await,
        "delete" => return delete(&state, &session, place).await,
        "" => send(&state, &session, upload, place).await,
        _ => return Err(Failure::not_found()),
    };
    match answer {
        Err(Failure::Api(error)) => once_more(&state, &session, &typed, named, &error, lacks_files).await,
        answer => answer,
    }
}

/// Whether the form may be sent again as a new mail. Otherwise the mail may have been sent after all, and the key makes
/// sure that the same form does not send it again.
fn is_settled(error: &ApiError) -> bool {
    match error.code() {
        "SEND_FAILED" => error.retry_after().is_some(),
        "IDEMPOTENCY_CONFLICT" => error.retry_after().is_none(),
        _ => error.status().is_client_error(),
    }
}

fn new_key(state: &HttpState) -> String {
    let mut random = [0_u8; 16];
    state.service().entropy().fill(&mut random);
    random.iter().fold(String::from("console-"), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    })
}

/// The form as it was sent, with the reason why nothing was done. Without it, a browser may lose a long text.
async fn once_more(
    state: &HttpState,
    session: &Session,
    typed: &Fields,
    place: Option<DraftPlace>,
    error: &ApiError,
    lacks_files: bool,
) -> Answer {
    let stored = match place {
        // A draft that is gone, or is another's, is not named again: the form can then be saved as a new one.
        Some(place) => StoredDraft::read(state, session, place).await.ok(),
        None => None,
    };
    let lacks_files = lacks_files || (stored.is_none() && kept(typed).next().is_some());
    let form = MailForm::of_typed(typed, stored.as_ref());
    let key = if is_settled(error) { new_key(state) } else { typed.text("key").to_owned() };
    let page = WritePage::new(session, typed.optional("from"), form, key);
    let details = error.details().map(|(field, what)| (field.to_owned(), what.to_owned())).collect();
    let message = match error.code() {
        "IDEMPOTENCY_CONFLICT" if is_settled(error) => {
            "This mail was sent before. Send it again only if the changed mail should be sent too.".to_owned()
        }
        _ => in_words(error),
    };
    let problem = Some(Problem { message, details, lacks_files });
    let answer = render_as(error.status(), &WritePage { draft: stored.map(|stored| stored.place), problem, ..page });
    answer.map(|response| with_retry_after(response, error))
}

async fn send(state: &HttpState, session: &Session, upload: Upload, place: Option<DraftPlace>) -> Answer {
    let Upload { fields, files, hash, room: _room } = upload;
    let (service, caller) = (state.service().clone(), session.caller.clone());
    let mut violations = Violations::none();
    let key = fields.optional("key");
    let idempotency = key.and_then(|key| violations.check("key", IdempotencyKey::new(&key, hash)));
    let idempotency = violations.or(Some(idempotency))?;
    let Some(files) = with_kept(state, session, place.as_ref(), &fields, files).await? else {
        // The first of two equal forms has sent the mail and removed the draft.
        let Some(key) = &idempotency else { return Err(gone()) };
        let sent = service.sent_before(&caller, key).await?.ok_or_else(gone)?;
        return sent_page(&sent, Note::Sent);
    };
    let draft = Draft::parse(draft_fields(&fields, files), &service.settings().draft)?;
    let sent = change(async move {
        let unsent = draft.clone();
        let sent = service.send(&caller, SendRequest { draft, idempotency }).await?;
        let note = after(&service, &caller, &sent, unsent, place).await;
        Ok::<_, SendError>((sent, note))
    });
    let (sent, note) = sent.await?;
    sent_page(&sent, note)
}

/// Removes the draft of a mail that was sent. A mail that every recipient refused stays a draft, or becomes one, because
/// it is stored nowhere else. An error here would make the caller send the mail again, so it is only logged.
async fn after(service: &Service, caller: &Caller, sent: &Submitted, unsent: Draft, place: Option<DraftPlace>) -> Note {
    let record = service.status(caller, sent.message_id).await;
    let is_refused = record.is_ok_and(|record| record.message.status == MessageStatus::Bounced);
    match place {
        Some(_) if is_refused => Note::RefusedDraft,
        None if is_refused => keep_refused(service, caller, unsent).await,
        Some(place) => {
            remove_sent(service, caller, &place).await;
            Note::Sent
        }
        None => Note::Sent,
    }
}

async fn keep_refused(service: &Service, caller: &Caller, unsent: Draft) -> Note {
    let Some(own) = caller.grants.mailbox() else { return Note::Refused };
    match service.save_draft(caller, own, unsent, None).await {
        Ok(_) => Note::RefusedDraft,
        Err(error) => {
            tracing::warn!(%error, "a refused mail was not saved as a draft");
            Note::Refused
        }
    }
}

async fn remove_sent(service: &Service, caller: &Caller, DraftPlace { mailbox, uid }: &DraftPlace) {
    match service.delete_draft(caller, mailbox, *uid).await {
        Ok(()) | Err(DraftError::Mailbox(MailboxError::NoSuchMessage)) => {}
        Err(error) => tracing::warn!(%error, "the draft of a sent mail was not removed"),
    }
}

fn sent_page(sent: &Submitted, note: Note) -> Answer {
    done(&format!("{}/{}", messages::PATH, sent.message_id), note)
}

async fn save(state: &HttpState, session: &Session, upload: Upload, place: Option<DraftPlace>) -> Answer {
    let Upload { fields, files, room, .. } = upload;
    let files = with_kept(state, session, place.as_ref(), &fields, files).await?.ok_or_else(gone)?;
    let mut written = draft_fields(&fields, files);
    let (mailbox, replaces) = match place {
        Some(DraftPlace { mailbox, uid }) => (mailbox, Some(uid)),
        None => (mailbox_for(session, &fields)?, None),
    };
    if written.from.is_empty() {
        mailbox.shown().clone_into(&mut written.from);
    }
    let draft = Draft::parse_unfinished(written, &state.service().settings().draft)?;
    let (service, caller, of) = (state.service().clone(), session.caller.clone(), mailbox.clone());
    let saved = change(async move {
        let _room = room;
        service.save_draft(&caller, &of, draft, replaces).await
    });
    let SavedDraft { uid, .. } = saved.await?;
    done(&link(session, &mailbox, uid), Note::DraftSaved)
}

/// The mailbox of a new draft: the caller's own. An API token without one saves in the mailbox of the author.
fn mailbox_for(session: &Session, fields: &Fields) -> Result<EmailAddress, Violations> {
    match session.caller.grants.mailbox() {
        Some(own) => Ok(own.clone()),
        None => Ok(fields.required::<NamedAddress>("from")?.address),
    }
}

async fn delete(state: &HttpState, session: &Session, place: Option<DraftPlace>) -> Answer {
    let DraftPlace { mailbox, uid } = place.ok_or_else(Failure::not_found)?;
    let folder = state.service().drafts_folder(&session.caller, &mailbox).await?;
    let (service, caller, of) = (state.service().clone(), session.caller.clone(), mailbox.clone());
    change(async move { service.delete_draft(&caller, &of, uid).await }).await?;
    let list = format!("{}/{}", mail::PATH, show::segment(mailbox.as_str()));
    done(&folder.map_or(list.clone(), |folder| mail::folder_link(&list, &folder)), Note::DraftDeleted)
}

/// The files of the draft that are kept, and the new ones; `None` if the draft was removed.
async fn with_kept(
    state: &HttpState,
    session: &Session,
    place: Option<&DraftPlace>,
    fields: &Fields,
    files: Vec<AttachmentFields>,
) -> Result<Option<Vec<AttachmentFields>>, Failure> {
    let kept: Vec<u32> = kept(fields).collect();
    let Some(place) = place.filter(|_| !kept.is_empty()) else { return Ok(Some(files)) };
    let stored = match StoredDraft::read(state, session, place.clone()).await {
        Err(ReadError::Mailbox(MailboxError::NoSuchMessage)) => return Ok(None),
        stored => stored?,
    };
    let mut all = stored.files(state, session, &kept).await?;
    all.extend(files);
    Ok(Some(all))
}

fn gone() -> Failure {
    MailboxError::NoSuchMessage.into()
}

fn draft_fields(fields: &Fields, files: Vec<AttachmentFields>) -> DraftFields {
    let in_reply_to = fields.optional("in_reply_to");
    DraftFields {
        from: fields.text("from").to_owned(),
        to: addresses(fields.text("to")),
        cc: addresses(fields.text("cc")),
        bcc: addresses(fields.text("bcc")),
        subject: fields.optional("subject"),
        text: Some(fields.exact("text").replace("\r\n", "\n")),
        html: None,
        reply_to: fields.optional("reply_to"),
        headers: in_reply_to.map(|id| ("In-Reply-To".to_owned(), id)).into_iter().collect(),
        attachments: files,
    }
}

/// Addresses, separated by commas, semicolons or line ends. A comma within quotes belongs to a name.
pub(super) fn addresses(text: &str) -> Vec<String> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_end = |c: char| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        is_escaped = is_quoted && c == '\\';
        is_quoted ^= c == '"';
        !is_quoted && matches!(c, ',' | ';' | '\n')
    };
    text.split(is_end).map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_comma_within_a_name_ends_no_address() {
        let text = "ann@a.example, \"Lee, Bob\" <bob@a.example>;\n carl@a.example,";
        assert_eq!(addresses(text), ["ann@a.example", "\"Lee, Bob\" <bob@a.example>", "carl@a.example"]);
        let escaped = r#""a \", b" <a@a.example>, c@a.example"#;
        assert_eq!(addresses(escaped), [r#""a \", b" <a@a.example>"#, "c@a.example"]);
    }

    proptest! {
        #[test]
        fn any_text_is_split(text: String) {
            prop_assert!(addresses(&text).iter().all(|address| !address.is_empty()));
        }
    }
}
