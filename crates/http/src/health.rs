//! Whether the service works, for load balancers and people.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mailapi_service::health::Check;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::Json;
use crate::error::ErrorCode;
use crate::state::HttpState;

/// Both checks. They cost a token nothing and an address nothing.
pub(crate) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(live))
}

/// The state of the service.
#[derive(Serialize, ToSchema)]
#[schema(as = Health, example = json!({
    "success": true, "status": "ok", "version": "0.1.0", "uptime_seconds": 86400,
    "checks": { "database": "ok", "smtp": "ok", "imap": "ok" }
}))]
struct HealthBody {
    /// Whether everything works.
    success: bool,
    /// With 503: `SERVICE_UNAVAILABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// With 503: what that means.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    /// `ok` or `degraded`.
    status: &'static str,
    /// The version of mailapi.
    version: &'static str,
    /// How long it has been running.
    uptime_seconds: u64,
    /// Each part by itself.
    checks: HealthChecks,
}

/// Each is `ok`, or a word that says why not.
#[derive(Serialize, ToSchema)]
struct HealthChecks {
    /// The account database.
    database: &'static str,
    /// Handing mail over.
    smtp: &'static str,
    /// Reading mailboxes.
    imap: &'static str,
    /// Reading the mail server's log; absent with the built-in mail server. `incomplete` when a part of the log was lost
    /// recently: the service continues, but some statuses may stay open. `clock_differs` when its times are corrected,
    /// because its clock or time zone differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'static str>,
    /// Reading the mailbox that bounces go to, where there is one. When it cannot be read everything goes on, and what
    /// comes meanwhile is read later. `incomplete` when a message in it was left out lately, since it is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounces: Option<&'static str>,
    /// The user database that is only read here, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<&'static str>,
}

/// Check the service
///
/// Asks the database and the mail server. Cheap: a result is given again for a few seconds.
#[utoipa::path(get, path = "/health", tag = "service", operation_id = "get_health", security(()), responses(
    (status = 200, description = "Everything works.", body = HealthBody),
    (status = 503, description = "A part does not work.", body = HealthBody, example = json!({
        "success": false, "error": "SERVICE_UNAVAILABLE", "message": "A part of the service does not work; see checks.",
        "status": "degraded", "version": "0.1.0", "uptime_seconds": 86400,
        "checks": { "database": "ok", "smtp": "unavailable", "imap": "ok" }
    })),
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
        message: (!is_ok).then_some("A part of the service does not work; see checks."),
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
        },
    };
    let status = if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

fn word(check: Check) -> &'static str {
    check.err().unwrap_or("ok")
}

/// The process answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Alive, example = json!({ "success": true, "status": "ok" }))]
struct AliveBody {
    /// Always true.
    success: bool,
    /// Always `ok`.
    status: &'static str,
}

/// Check the process
///
/// Says that the process answers, and asks nobody else.
#[utoipa::path(get, path = "/health/live", tag = "service", operation_id = "get_liveness", security(()),
    responses((status = 200, description = "It does.", body = AliveBody)))]
async fn live() -> Json<AliveBody> {
    Json(AliveBody { success: true, status: "ok" })
}
