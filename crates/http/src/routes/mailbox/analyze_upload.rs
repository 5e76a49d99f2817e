//! `POST /security/analyze`.

use axum::extract::{Request, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::analyze_message::Report;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::message_body::MessageBody;
use crate::state::HttpState;

/// What was found in an uploaded message.
#[derive(Serialize, ToSchema)]
#[schema(as = UploadSecurity)]
pub(crate) struct UploadAnalyzed {
    /// Always true.
    success: bool,
    #[serde(flatten)]
    report: Report,
}

documented_errors!(
    Errors,
    documented,
    [AccessDenied, UnsupportedMediaType, PayloadTooLarge, ValidationError, RequestTimeout, AnalysisOff]
);

/// Look for signs of fraud in an uploaded message
///
/// Reads the body as a message, without any network, and keeps nothing of it. The setting `security.analysis` switches it on.
/// For every token. `first_contact` is null, and results in the message do not count as this server's.
#[utoipa::path(post, path = "/security/analyze", tag = "mailbox", operation_id = "analyze_upload",
    request_body(content = String, content_type = "message/rfc822",
        description = "Message as sent by SMTP, with its header; up to the size of a request that sends.",
        example = "From: Alice <alice@example.test>\r\nSubject: Hello\r\n\r\nSee https://www.example.test/\r\n"),
    responses((status = 200, description = "What was found.", body = UploadAnalyzed), Errors))]
pub(crate) async fn analyze_upload(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    request: Request,
) -> Result<Json<UploadAnalyzed>, ApiError> {
    // Before the body arrives.
    state.service().may_analyze()?;
    let body = MessageBody::receive(request, &state).await?;
    let report = state.service().analyze_upload(&caller, body.message.clone()).await?;
    Ok(Json(UploadAnalyzed { success: true, report: report.into() }))
}
