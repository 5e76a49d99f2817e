//! `POST /users/{email}/app-passwords`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{AppPassword, AppPasswordValue};
use serde::Serialize;
use utoipa::ToSchema;

use super::AppPasswordInfo;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::users::MailboxManager;
use crate::shape::TokenName;
use crate::state::HttpState;

request_body! {
    /// An app password to create.
    pub(crate) struct CreateAppPassword as "CreateAppPassword" {
        /// Display name, such as the mail program and the device: 1 to 200 characters.
        name: TokenName,
    }
    example { "name": "Thunderbird on the laptop" }
}

/// The new app password with its value.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "password": "kq3fd-m7xwa-p2zrn-tv6hb",
    "app_password": {
        "id": 1, "name": "Thunderbird on the laptop", "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": null
    }
}))]
pub(crate) struct AppPasswordCreated {
    /// Always true.
    success: bool,
    /// The value, to be typed into the mail program. It is returned only once.
    password: String,
    /// The new app password.
    app_password: AppPasswordInfo,
}

impl AppPasswordCreated {
    /// Response for a new app password.
    pub(crate) fn new(record: AppPassword, value: &AppPasswordValue) -> Self {
        Self { success: true, password: value.expose().to_owned(), app_password: record.into() }
    }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Create an app password
///
/// For the user, for callers with `manage_users` on the domain, and for admins. Only the owner and admins can create app
/// passwords of admin accounts. A mail program logs in with the user's address and this password, at IMAP and at
/// submission; the API does not accept it. A user has at most 50.
#[utoipa::path(post, path = "/users/{email}/app-passwords", tag = "users", operation_id = "create_app_password",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    request_body = CreateAppPassword,
    responses((status = 201, description = "The app password was created.", body = AppPasswordCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    MailboxManager { caller, email, .. }: MailboxManager,
    body: JsonBody<CreateAppPassword>,
) -> Result<(StatusCode, Json<AppPasswordCreated>), ApiError> {
    let CreateAppPassword { name } = body.read()?;
    let (record, value) = state.service().create_app_password(&caller, &email, &name).await?;
    Ok((StatusCode::CREATED, Json(AppPasswordCreated::new(record, &value))))
}
