//! The form of a mail, filled in from a query or from a stored draft.

use futures_util::StreamExt;
use mailapi_http::{ApiError, HttpState};
use mailapi_model::{AttachmentFields, EmailAddress, FolderName, NamedAddress, Violations};
use mailapi_service::Unavailable;
use mailapi_service::mailbox::{Correspondent, FullMessage, MailboxError, ReadError, html_text};

use super::mail;
use super::write::addresses;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::session::Session;
use crate::show;
use crate::upload::MAX_TEXT_BYTES;

/// What a form shows besides the author.
pub(super) struct MailForm {
    pub(super) to: String,
    pub(super) cc: String,
    pub(super) bcc: String,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) in_reply_to: String,
    pub(super) reply_to: String,
    /// The files of the draft.
    pub(super) files: Vec<StoredFile>,
    /// Whether the draft has HTML, which the form cannot show.
    pub(super) is_formatted: bool,
}

/// A file of a draft.
pub(super) struct StoredFile {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) size: String,
    /// Whether the mail has it too.
    pub(super) is_kept: bool,
}

impl MailForm {
    /// A new mail, as a link describes it.
    pub(super) fn of_query(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            to: text("to"),
            cc: text("cc"),
            bcc: String::new(),
            subject: text("subject"),
            text: String::new(),
            in_reply_to: text("in_reply_to"),
            reply_to: String::new(),
            files: Vec::new(),
            is_formatted: false,
        }
    }

    /// A form that was sent, with the files of its draft.
    pub(super) fn of_typed(fields: &Fields, stored: Option<&StoredDraft>) -> Self {
        let kept: Vec<u32> = kept(fields).collect();
        let mut files = stored.map(StoredDraft::stored_files).unwrap_or_default();
        for file in &mut files {
            file.is_kept = kept.contains(&file.index);
        }
        Self {
            bcc: fields.text("bcc").to_owned(),
            text: fields.exact("text").replace("\r\n", "\n"),
            reply_to: fields.text("reply_to").to_owned(),
            files,
            ..Self::of_query(fields)
        }
    }
}

/// The indexes of the files that the mail keeps.
pub(super) fn kept(fields: &Fields) -> impl Iterator<Item = u32> {
    fields.all("keep").filter_map(|index| index.parse().ok())
}

/// The place of a draft.
#[derive(Debug, Clone)]
pub(super) struct DraftPlace {
    pub(super) mailbox: EmailAddress,
    pub(super) uid: u32,
}

impl DraftPlace {
    /// The draft that the fields name; it is in the own mailbox unless they name another.
    pub(super) fn named(session: &Session, fields: &Fields) -> Result<Option<Self>, Failure> {
        if fields.text("draft").is_empty() {
            return Ok(None);
        }
        let uid = fields.text("draft").parse().map_err(|_| ApiError::from(MailboxError::NoSuchMessage))?;
        let own = session.caller.grants.mailbox().filter(|_| fields.text("mailbox").is_empty());
        let mailbox = match own {
            Some(own) => own.clone(),
            None => fields.required("mailbox")?,
        };
        Ok(Some(Self { mailbox, uid }))
    }
}

/// A draft of a mailbox.
pub(super) struct StoredDraft {
    pub(super) place: DraftPlace,
    folder: FolderName,
    message: FullMessage,
}

impl StoredDraft {
    /// # Errors
    /// A message without `\Draft` counts as missing.
    pub(super) async fn read(state: &HttpState, session: &Session, place: DraftPlace) -> Result<Self, ReadError> {
        let (service, caller) = (state.service(), &session.caller);
        service.may_manage_drafts(caller, &place.mailbox)?;
        let folder = service.drafts_folder(caller, &place.mailbox).await?;
        let folder = folder.ok_or(MailboxError::NoSuchMessage)?;
        let message = service.read_message(caller, &place.mailbox, &folder, place.uid).await?;
        if !mail::is_draft(&message.summary) {
            return Err(MailboxError::NoSuchMessage.into());
        }
        Ok(Self { place, folder, message })
    }

    /// Refuses a text that a form could not send back. A browser sends each line end as two bytes.
    pub(super) fn check_length(&self) -> Result<(), Violations> {
        let FullMessage { text, html, .. } = &self.message;
        let length = text.as_ref().or(html.as_ref()).map_or(0, String::len);
        if length <= MAX_TEXT_BYTES / 2 {
            return Ok(());
        }
        Err(Violations::of("text", "is too long for a form; continue the draft in a mail program"))
    }

    /// The author, as in the field From.
    pub(super) fn author(&self) -> String {
        written(&self.message.summary.from)
    }

    pub(super) fn form(&self) -> MailForm {
        let FullMessage { summary, cc, text, html, .. } = &self.message;
        let text = text.clone().or_else(|| html.as_deref().map(|html| html_text(html).trim().to_owned()));
        MailForm {
            to: people(&summary.to),
            cc: people(cc),
            bcc: typed(self.header("Bcc")),
            subject: summary.subject.clone(),
            text: text.unwrap_or_default().replace("\r\n", "\n"),
            in_reply_to: self.header("In-Reply-To").to_owned(),
            // An invalid one would be an error of a field that the form does not show.
            reply_to: Some(typed(self.header("Reply-To"))).filter(|one| is_address(one)).unwrap_or_default(),
            files: self.stored_files(),
            is_formatted: html.is_some(),
        }
    }

    fn stored_files(&self) -> Vec<StoredFile> {
        let files = self.message.attachments.iter().map(|info| StoredFile {
            index: info.index,
            name: info.filename.clone(),
            size: show::bytes(info.size),
            is_kept: true,
        });
        files.collect()
    }

    fn header(&self, name: &str) -> &str {
        let header = self.message.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map_or("", |(_, value)| value)
    }

    /// Copies the files with these indexes.
    pub(super) async fn files(
        &self,
        state: &HttpState,
        session: &Session,
        kept: &[u32],
    ) -> Result<Vec<AttachmentFields>, Failure> {
        let (service, DraftPlace { mailbox, uid }) = (state.service(), &self.place);
        let kept: Vec<_> = self.message.attachments.iter().filter(|info| kept.contains(&info.index)).collect();
        if kept.iter().map(|info| info.size).sum::<u64>() > service.settings().max_message_bytes as u64 {
            return Err(Violations::of("attachment", "the files are too large for one message").into());
        }
        let (mut contents, mut files) = (service.buffer().writer(), Vec::with_capacity(kept.len()));
        for info in kept {
            let begin = contents.len();
            let opened = service.download_attachment(&session.caller, mailbox, &self.folder, *uid, info.index).await?;
            let mut content = opened.content;
            while let Some(piece) = content.next().await {
                contents.push(&piece?).await.map_err(Unavailable::from)?;
            }
            let file = AttachmentFields {
                filename: info.filename.clone(),
                content: None,
                content_type: Some(format!("{}{}", info.content_type, info.type_parameters)),
                // Only HTML could refer to it.
                content_id: None,
            };
            files.push((file, begin..contents.len()));
        }
        let contents = contents.finish().map_err(Unavailable::from)?;
        let with_content = |(file, place)| AttachmentFields { content: Some(contents.slice(place)), ..file };
        Ok(files.into_iter().map(with_content).collect())
    }
}

/// The addresses of a decoded header field, as they are typed in. Decoding removes the quotes of a name, so a comma may
/// belong to one: a piece without an address is the start of the name that follows.
fn typed(field: &str) -> String {
    let (mut people, mut start) = (Vec::new(), String::new());
    for piece in addresses(field) {
        let piece = std::mem::take(&mut start) + &piece;
        match (piece.parse::<NamedAddress>(), piece.rsplit_once('<')) {
            (Ok(NamedAddress { name: None, address }), _) => people.push(address.shown().to_owned()),
            (Ok(NamedAddress { name: Some(name), address }), _) => people.push(named(&name, address.shown())),
            (Err(_), Some((name, address))) => people.push(named(name.trim(), address.trim_end_matches('>'))),
            (Err(_), None) if piece.contains('@') => people.push(piece),
            (Err(_), None) => start = piece + ", ",
        }
    }
    if !start.is_empty() {
        people.push(start.trim_end_matches([',', ' ']).to_owned());
    }
    people.join(", ")
}

fn is_address(text: &str) -> bool {
    text.parse::<NamedAddress>().is_ok()
}

fn people(people: &[Correspondent]) -> String {
    let people: Vec<_> = people.iter().map(written).filter(|one| !one.is_empty()).collect();
    people.join(", ")
}

fn written(Correspondent { name, email }: &Correspondent) -> String {
    if name.is_empty() { email.clone() } else { named(name, email) }
}

/// An address with a name, as it is typed in. A name with special characters is quoted.
fn named(name: &str, email: &str) -> String {
    if name.contains([',', ';', '"', '<', '>', '\\']) {
        format!("\"{}\" <{email}>", name.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("{name} <{email}>")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_with_a_comma_is_quoted_again() {
        let field =
            "<dan@b.example>, Müller, Käthe <kaethe@b.example>,\n \"Lee, Bob\" <bob@b.example>, Carl <carl@b.example>";
        let expected =
            "dan@b.example, \"Müller, Käthe\" <kaethe@b.example>, \"Lee, Bob\" <bob@b.example>, Carl <carl@b.example>";
        assert_eq!(typed(field), expected);
        assert_eq!((typed(""), typed("nobody"), typed("a@, <b")), (String::new(), "nobody".into(), "a@,  <b>".into()));
    }

    proptest! {
        #[test]
        fn any_field_is_shown(field in "[ -~ä\n]{0,60}") {
            typed(&field);
        }

        #[test]
        fn a_written_name_is_read_as_it_was(name in "[ -~äÜ☃]{0,20}") {
            let person = Correspondent { name: name.trim().to_owned(), email: "ann@example.org".to_owned() };
            let read: NamedAddress = written(&person).parse().unwrap();
            prop_assert_eq!(&read.name.unwrap_or_default(), &person.name);
            let both = [person.clone(), person];
            prop_assert_eq!(addresses(&people(&both)).len(), 2);
        }
    }
}
