//! The documentation pages. They load everything from this server, so they work without the internet, and their policy
//! forbids other hosts.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use utoipa_swagger_ui::Config;

use crate::caller::Anybody;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::router::{Routes, root_routes as routes};
use crate::state::HttpState;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
     worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Pages may change with every release, and are small.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
/// Assets change with a release too. An hour of stale assets does little harm.
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

const REDOC: Bytes = Bytes::from_static(include_bytes!("../assets/redoc.standalone.js.gz"));

/// The pages and the document.
pub(crate) fn routes() -> Routes {
    Routes::new().routes(routes!(openapi_json)).routes(routes!(swagger_ui)).routes(routes!(redoc))
}

/// The files of the pages, and redirects. The document does not contain them.
pub(crate) fn files() -> Router<HttpState> {
    Router::new()
        .route("/", axum::routing::get(|| async { Redirect::temporary("/docs") }))
        .route("/docs/", axum::routing::get(|| async { Redirect::permanent("../docs") }))
        .route("/docs/{file}", axum::routing::get(swagger_ui_file))
        .route("/redoc/redoc.standalone.js", axum::routing::get(redoc_bundle))
}

documented_errors!(Errors, documented_public, [RateLimitExceeded]);

/// Get the OpenAPI document
///
/// Returns this document in OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", tag = "service", operation_id = "get_openapi_document", security(()),
    responses((status = 200, description = "The OpenAPI document.", body = Object), Errors))]
async fn openapi_json(State(state): State<HttpState>, _: Anybody) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json")), (CACHE_CONTROL, REVALIDATE)], state.document())
        .into_response()
}

/// Get the interactive documentation
///
/// Returns this document in Swagger UI, which can call every operation with your token.
#[utoipa::path(get, path = "/docs", tag = "service", operation_id = "get_docs_page", security(()),
    responses((status = 200, description = "An HTML page.", body = String, content_type = "text/html"), Errors))]
async fn swagger_ui(_: Anybody) -> Response {
    page(include_str!("../assets/docs.html"))
}

/// Get the reference documentation
///
/// Returns this document in ReDoc, with code samples.
#[utoipa::path(get, path = "/redoc", tag = "service", operation_id = "get_reference_page", security(()),
    responses((status = 200, description = "An HTML page.", body = String, content_type = "text/html"), Errors))]
async fn redoc(_: Anybody) -> Response {
    page(include_str!("../assets/redoc.html"))
}

fn page(html: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, REVALIDATE),
    ];
    (headers, html).into_response()
}

async fn redoc_bundle(_: Anybody) -> Response {
    packed("text/javascript; charset=utf-8", REDOC)
}

async fn swagger_ui_file(_: Anybody, Path(file): Path<String>) -> Result<Response, ApiError> {
    // The start page of Swagger UI does not fit our policy, and the rest of the package is not needed.
    const SERVED: [&str; 4] = ["favicon-32x32.png", "index.css", "swagger-ui-bundle.js", "swagger-ui.css"];
    if file == "start.js" {
        return Ok(plain("text/javascript; charset=utf-8", Bytes::from_static(include_bytes!("../assets/docs.js"))));
    }
    if !SERVED.contains(&file.as_str()) {
        return Err(ErrorCode::NotFound.into());
    }
    let served = utoipa_swagger_ui::serve(&file, Arc::new(Config::default())).map_err(ApiError::internal)?;
    let served = served.ok_or(ErrorCode::NotFound)?;
    let bytes = Bytes::from(served.bytes.into_owned());
    let response =
        if served.gzpipped { packed(&served.content_type, bytes) } else { plain(&served.content_type, bytes) };
    Ok(response)
}

fn plain(content_type: &str, bytes: Bytes) -> Response {
    let content_type = HeaderValue::from_str(content_type);
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, FOR_AN_HOUR)], bytes).into_response()
}

fn packed(content_type: &str, bytes: Bytes) -> Response {
    const GZIP: (HeaderName, HeaderValue) = (CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    ([GZIP], plain(content_type, bytes)).into_response()
}
