//! `GET /metrics`, at a listener of its own.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mailapi_metrics::CONTENT_TYPE;
use mailapi_service::Service;

/// The router of the listener for monitoring. It asks for no token, so the listener belongs on a private address.
pub fn metrics_router(service: Service) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(service)
}

async fn scrape(State(service): State<Service>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], service.scrape().await).into_response()
}
