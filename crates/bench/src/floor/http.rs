//! The HTTP floor: the product's own HTTP server (`mailapi_http::serve`, the same axum and hyper). Its handler
//! returns a constant response of the wanted length.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use mailapi_http::HttpSettings;
use tokio::net::TcpListener;

use super::process::announce;
use crate::client::http::Request;
use crate::outcome::Outcome;

/// Maximum length of a response.
const LONGEST: usize = 1024 * 1024;

#[derive(Debug, Clone)]
struct Answers {
    bytes: Bytes,
    given: Arc<AtomicU64>,
}

/// Serves until the process is killed.
pub(crate) async fn serve() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    let answers = Answers { bytes: vec![b'x'; LONGEST].into(), given: Arc::default() };
    let router = Router::new().route("/bytes/{count}", get(bytes)).route("/given", get(given)).with_state(answers);
    mailapi_http::serve(listener, router, &HttpSettings::default(), std::future::pending()).await;
    Ok(())
}

async fn bytes(State(answers): State<Answers>, Path(count): Path<usize>) -> impl IntoResponse {
    answers.given.fetch_add(1, Ordering::Relaxed);
    ([(CONTENT_TYPE, "application/json")], answers.bytes.slice(..count.min(LONGEST)))
}

async fn given(State(answers): State<Answers>) -> String {
    answers.given.load(Ordering::Relaxed).to_string()
}

/// A request for a response of this length.
pub(crate) fn request(bytes: usize) -> Request {
    Request::get(&format!("/bytes/{}", bytes.min(LONGEST)), "")
}

/// A request for the number of responses.
pub(crate) fn count_request() -> Request {
    Request::get("/given", "")
}
