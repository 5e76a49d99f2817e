//! Answers to a certificate authority that checks this server's names over HTTP (RFC 8555 section 8.3).

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::handler::Handler;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::guard;
use crate::state::HttpState;

/// The path is not part of the API, so it is not in the document.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new().route("/.well-known/acme-challenge/{token}", get(answer))
}

/// An authority asks from several places at once, so answers are not limited. A wrong token is an unknown path.
async fn answer(State(state): State<HttpState>, Path(token): Path<String>, request: Request) -> Response {
    match state.settings().tls.as_ref().and_then(|tls| tls.challenges().text(&token)) {
        Some(text) => ([(CONTENT_TYPE, "application/octet-stream")], text).into_response(),
        None => guard::unknown_path.call(request, state).await,
    }
}
