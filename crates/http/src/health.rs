//! Health checks for load balancers and people.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mailapi_service::health::Check;
use mailapi_tls::{ServerTls, Validity};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::error::{ErrorCode, documented_errors};
use crate::router::{Routes, root_routes as routes};
use crate::state::HttpState;

/// All checks. They are not rate-limited.
pub(crate) fn routes() -> Routes {
    Routes::new().routes(routes!(health)).routes(routes!(live)).routes(routes!(ready))
}

/// Health of the service.
#[derive(Serialize, ToSchema)]
#[schema(as = Health, example = json!({
    "success": true, "status": "ok", "version": "0.1.0", "uptime_seconds": 86400,
    "checks": { "database": "ok", "smtp": "ok", "imap": "ok" }
}))]
struct HealthBody {
    /// Whether all checks passed.
    success: bool,
    /// With 503: `SERVICE_UNAVAILABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// With 503: the reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    /// `ok` or `degraded`.
    status: &'static str,
    /// The version of mailapi.
    version: &'static str,
    /// Seconds since the start of the process.
    uptime_seconds: u64,
    /// Result of each check.
    checks: HealthChecks,
}

/// Results of the checks: `ok`, or a word for the problem.
#[derive(Serialize, ToSchema)]
struct HealthChecks {
    /// Account database. `moved`: its file was renamed or replaced while it was open, so changes are refused.
    /// `disk_full`: the disk has no room, so only deletions work.
    database: &'static str,
    /// Submission of mail to the mail server.
    smtp: &'static str,
    /// Access to mailboxes.
    imap: &'static str,
    /// Access to the mail server's log; absent with the built-in mail server. `incomplete`: a part of the log was lost
    /// recently, so some statuses may stay open. `clock_differs`: log times are corrected, because the clock or time
    /// zone of the mail server differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'static str>,
    /// Access to the bounce mailbox, if one is configured. A failure delays bounces and does not degrade the service.
    /// `incomplete`: a damaged message was skipped recently.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounces: Option<&'static str>,
    /// External user database, if one is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<&'static str>,
    /// Certificate of the listeners; absent without TLS. `missing`: none was issued yet. `expires_soon`: it was not renewed
    /// in time. `expired`: clients refuse it. None of them degrades the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'static str>,
}

documented_errors!(Errors, documented_alone, [BadRequest]);

/// Check the health of the service
///
/// Checks the database and the mail server. Results are cached for a few seconds.
#[utoipa::path(get, path = "/health", tag = "service", operation_id = "get_health", security(()), responses(
        (status = 200, description = "All checks passed.", body = HealthBody),
        (status = 503, description = "At least one check failed.", body = HealthBody, example = json!({
            "success": false, "error": "SERVICE_UNAVAILABLE", "message": "At least one check failed; see checks.",
        "status": "degraded", "version": "0.1.0", "uptime_seconds": 86400,
        "checks": { "database": "ok", "smtp": "unavailable", "imap": "ok" }
    })),
    Errors,
))]
async fn health(State(state): State<HttpState>) -> Response {
    let health = state.service().health().await;
    let is_ok = health.is_ok();
    let word_of_feed = |check: Check, is_whole: bool| {
        if check.is_ok() && !is_whole { "incomplete" } else { word(check) }
    };
    let body = HealthBody {
        success: is_ok,
        error: (!is_ok).then_some(ErrorCode::ServiceUnavailable.as_str()),
        message: (!is_ok).then_some("At least one check failed; see checks."),
        status: if is_ok { "ok" } else { "degraded" },
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: state.uptime().as_secs(),
        checks: HealthChecks {
            database: word(health.database),
            smtp: word(health.smtp),
            imap: word(health.imap),
            log: health.log.map(|log| match word_of_feed(log, health.log_is_whole) {
                "ok" if !health.log_clock_agrees => "clock_differs",
                word => word,
            }),
            bounces: health.bounces.map(|bounces| word_of_feed(bounces, health.bounces_are_whole)),
            users: health.users.map(word),
            certificate: state.settings().tls.as_ref().map(|tls| certificate(tls, state.clock().now().as_seconds())),
        },
    };
    let status = if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// A word for the certificate in use at `now`, in seconds since the Unix epoch.
fn certificate(tls: &ServerTls, now: i64) -> &'static str {
    /// A tenth of the lifetime: renewals begin long before.
    const LATE: i64 = 10;
    let Some(Validity { begins_at, expires_at }) = tls.validity() else { return "missing" };
    match expires_at - now {
        ..0 => "expired",
        left if left < (expires_at - begins_at) / LATE => "expires_soon",
        _ => "ok",
    }
}

fn word(check: Check) -> &'static str {
    check.err().unwrap_or("ok")
}

/// The process is running.
#[derive(Serialize, ToSchema)]
#[schema(as = Alive, example = json!({ "success": true, "status": "ok" }))]
struct AliveBody {
    /// Always true.
    success: bool,
    /// Always `ok`.
    status: &'static str,
}

/// Check that the process is running
///
/// Returns at once, without checking the database or the mail server.
#[utoipa::path(get, path = "/health/live", tag = "service", operation_id = "get_liveness", security(()),
    responses((status = 200, description = "The process is running.", body = AliveBody), Errors))]
async fn live() -> Json<AliveBody> {
    Json(AliveBody { success: true, status: "ok" })
}

/// Readiness of the service.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness, example = json!({ "success": true, "status": "ready", "reasons": [] }))]
struct ReadyBody {
    /// Whether messages can be sent and mailboxes can log in.
    success: bool,
    /// With 503: `SERVICE_UNAVAILABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// With 503: the reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    /// `ready` or `not_ready`.
    status: &'static str,
    /// Names of the failed checks: `database`, `smtp` or `users`, as in `GET /health`.
    reasons: Vec<&'static str>,
}

/// Check that the service can work
///
/// Checks the parts without which a send or a login would fail now. Failures of other parts, such as access to
/// mailboxes, do not count: another instance would not help. Results are cached for a few seconds.
#[utoipa::path(get, path = "/health/ready", tag = "service", operation_id = "get_readiness", security(()), responses(
    (status = 200, description = "Messages can be sent, and mailboxes can log in.", body = ReadyBody),
    (status = 503, description = "A send or a login would fail now.", body = ReadyBody, example = json!({
        "success": false, "error": "SERVICE_UNAVAILABLE", "message": "A part that sends and logins need fails; see reasons.",
        "status": "not_ready", "reasons": ["smtp"]
    })),
    Errors,
))]
async fn ready(State(state): State<HttpState>) -> Response {
    let reasons = state.service().health().await.not_ready();
    let is_ready = reasons.is_empty();
    let body = ReadyBody {
        success: is_ready,
        error: (!is_ready).then_some(ErrorCode::ServiceUnavailable.as_str()),
        message: (!is_ready).then_some("A part that sends and logins need fails; see reasons."),
        status: if is_ready { "ready" } else { "not_ready" },
        reasons,
    };
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}
