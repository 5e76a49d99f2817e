//! Writing and sending a mail.

use std::fmt::Write as _;

use askama::Template;
use axum::extract::State;
use mailapi_http::{ApiError, HttpState};
use mailapi_model::{Draft, DraftFields, Permission, Violations};
use mailapi_service::mail::{IdempotencyKey, SendRequest, Submitted};

use super::messages;
use crate::answer::{Answer, done, render};
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::session::Session;
use crate::upload::Upload;

#[derive(Template)]
#[template(path = "write.html")]
struct WritePage {
    frame: Frame,
    from: String,
    may_choose: bool,
    fields: Fields,
    /// Makes sure that a form that is sent twice sends one mail.
    key: String,
}

/// The form of a new mail.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Query(fields): Query) -> Answer {
    let grants = &session.caller.grants;
    let own = grants.mailbox().map(|mailbox| mailbox.shown().to_owned());
    let may_choose =
        own.is_none() || grants.admin().is_ok() || grants.domains_with(Permission::SendMail).next().is_some();
    let from = fields.optional("from").filter(|_| may_choose).or(own).unwrap_or_default();
    let mut random = [0_u8; 16];
    state.service().entropy().fill(&mut random);
    let key = random.iter().fold(String::from("console-"), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    });
    let frame = Frame::new(&session, "Write").call(
        "POST /mail/send",
        "The own mailbox. send_mail adds the users of a domain. Admins: every address of an active domain.",
    );
    render(&WritePage { frame, from, may_choose, fields, key })
}

/// `POST /mail/send`.
pub(crate) async fn send(State(state): State<HttpState>, session: Session, upload: Upload) -> Answer {
    let Upload { fields, files, hash, room: _room } = upload;
    let service = state.service().clone();
    let mut violations = Violations::none();
    let key = fields.optional("key");
    let idempotency = key.and_then(|key| violations.check("key", IdempotencyKey::new(&key, hash)));
    let reply_to = fields.optional("in_reply_to");
    let draft = DraftFields {
        from: fields.text("from").to_owned(),
        to: addresses(fields.text("to")),
        cc: addresses(fields.text("cc")),
        bcc: addresses(fields.text("bcc")),
        subject: fields.optional("subject"),
        text: Some(fields.exact("text").replace("\r\n", "\n")),
        html: None,
        reply_to: None,
        headers: reply_to.map(|id| ("In-Reply-To".to_owned(), id)).into_iter().collect(),
        attachments: files,
    };
    let draft = violations.or(Some(draft))?;
    let draft = Draft::parse(draft, &service.settings().draft)?;
    let Submitted { message_id, .. } =
        service.send(&session.caller, SendRequest { draft, idempotency }).await.map_err(ApiError::from)?;
    done(&format!("{}/{message_id}", messages::PATH), Note::Sent)
}

/// Addresses, separated by commas, semicolons or line ends. A comma within quotes belongs to a name.
fn addresses(text: &str) -> Vec<String> {
    let mut is_quoted = false;
    let is_end = |c: char| {
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
    }

    proptest! {
        #[test]
        fn any_text_is_split(text: String) {
            prop_assert!(addresses(&text).iter().all(|address| !address.is_empty()));
        }
    }
}
