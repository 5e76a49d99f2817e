//! All routes, and the layer around them.

use axum::Router;
use tower::layer::layer_fn;
use utoipa::openapi::path::Paths;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::operations::Operations;
use crate::request_layer::RequestLayer;
use crate::state::HttpState;
use crate::{docs, guard, health, openapi, routes};

/// Prefix of the API's paths.
const BASE: &str = "/api/v1";

/// Like `utoipa_axum::routes`, at paths below [`BASE`].
macro_rules! api_routes {
    ($($operation:tt)+) => {
        $crate::router::below_base(utoipa_axum::routes!($($operation)+))
    };
}

pub(crate) use api_routes;

/// Prefixes the paths directly: a nested router would rewrite the path of each request.
pub(crate) fn below_base((schemas, paths, methods): UtoipaMethodRouter<HttpState>) -> UtoipaMethodRouter<HttpState> {
    let mut below = Paths::new();
    below.paths = paths.paths.into_iter().map(|(path, item)| (format!("{BASE}{path}"), item)).collect();
    (schemas, below, methods)
}

/// All routes with their parts of the document.
pub(crate) fn documented_routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::with_openapi(openapi::frame())
        .merge(routes::mail::routes())
        .merge(routes::events::routes())
        .merge(routes::queue::routes())
        .merge(routes::mailbox::routes())
        .merge(routes::stats::routes())
        .merge(routes::tokens::routes())
        .merge(routes::auth::routes())
        .merge(routes::permissions::routes())
        .merge(routes::domains::routes())
        .merge(routes::users::routes())
        .merge(routes::webhooks::routes())
        .merge(health::routes())
        .merge(docs::routes())
}

/// The router with all layers.
///
/// Every request passes a [`RequestLayer`]. Handlers authenticate and authorize by the extractors in their signatures.
pub fn router(state: HttpState) -> Router {
    let (routes, document) = documented_routes().split_for_parts();
    let operations = Operations::new(&document.paths, state.service().metrics());
    let passing = state.clone();
    routes
        .fallback(guard::unknown_path)
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(layer_fn(move |inner| RequestLayer::new(passing.clone(), operations.clone(), inner)))
        .with_state(state)
}
