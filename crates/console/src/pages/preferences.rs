//! The preferences of a mailbox, as a part of the pages of users and of the own account.

use mailapi_http::HttpState;
use mailapi_model::{EmailAddress, SaveSent};

use crate::answer::{Answer, change, done};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::note::Note;
use crate::session::Session;

/// A value of the preference.
pub(super) struct SaveSentChoice {
    pub(super) value: &'static str,
    pub(super) text: &'static str,
    pub(super) is_chosen: bool,
}

/// `GET /users/{email}/preferences`. Without choices, the page does not show the preference.
pub(super) async fn choices(
    state: &HttpState,
    session: &Session,
    email: &EmailAddress,
) -> Result<Vec<SaveSentChoice>, Failure> {
    let chosen = state.service().get_preferences(&session.caller, email).await?;
    if !state.service().saves_sent() {
        return Ok(Vec::new());
    }
    let choice = |value: SaveSent| {
        let text = match value {
            SaveSent::Off => "None",
            SaveSent::Api => "Those sent here and through the API",
            SaveSent::All => "Those, and those from mail programs",
        };
        SaveSentChoice { value: value.as_str(), text, is_chosen: value == chosen }
    };
    Ok(SaveSent::ALL.map(choice).into())
}

/// `PUT /users/{email}/preferences`.
pub(super) async fn save(
    state: &HttpState,
    session: &Session,
    email: EmailAddress,
    fields: &Fields,
    path: &str,
) -> Answer {
    let save_sent = fields.required("save_sent")?;
    let (service, caller) = (state.service().clone(), session.caller.clone());
    change(async move { service.set_preferences(&caller, &email, save_sent).await }).await?;
    done(path, Note::PreferencesChanged)
}
