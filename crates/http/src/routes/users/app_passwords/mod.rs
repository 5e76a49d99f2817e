//! App passwords.

pub(crate) mod create;
pub(super) mod list;
pub(super) mod revoke;

use mailapi_model::AppPassword;
use serde::Serialize;
use utoipa::ToSchema;

use crate::shape::Moment;

/// An app password, without the value.
#[derive(Serialize, ToSchema)]
#[schema(as = AppPassword, example = json!({
    "id": 1, "name": "Thunderbird on the laptop", "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": null
}))]
pub(crate) struct AppPasswordInfo {
    /// App password number.
    id: i64,
    /// Display name.
    name: String,
    /// Creation time.
    created_at: Moment,
    /// Time of the latest login with it; null if there was none, and in front of an external mail server.
    #[schema(required)]
    last_used_at: Option<Moment>,
}

impl From<AppPassword> for AppPasswordInfo {
    fn from(AppPassword { id, name, created_at, last_used_at }: AppPassword) -> Self {
        Self { id: id.0, name, created_at: created_at.into(), last_used_at: last_used_at.map(Moment) }
    }
}
