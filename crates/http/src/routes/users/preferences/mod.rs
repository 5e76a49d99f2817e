//! Preferences of a mailbox.

pub(super) mod get;
pub(super) mod update;

use mailapi_model::{EmailAddress, SaveSent};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shape::SaveSentName;

/// The preferences of a mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = Preferences, example = json!({ "success": true, "email": "alice@example.test", "save_sent": "api" }))]
pub(crate) struct PreferencesFound {
    /// Always true.
    success: bool,
    /// Address of the user.
    email: String,
    /// Which messages of the user are copied to the folder `Sent`: none (`off`), those sent through the API (`api`), or
    /// also those that mail programs send (`all`).
    #[schema(value_type = SaveSentName)]
    save_sent: &'static str,
}

impl PreferencesFound {
    fn new(email: &EmailAddress, save_sent: SaveSent) -> Self {
        Self { success: true, email: email.shown().to_owned(), save_sent: save_sent.as_str() }
    }
}
