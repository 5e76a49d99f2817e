//! All routes, and what every request passes on its way to one.

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;

use crate::state::HttpState;
use crate::{docs, guard, health, openapi, passage, routes};

/// Where the contract's paths begin.
const BASE: &str = "/api/v1";

/// Every route with its part of the document.
pub(crate) fn documented_routes() -> OpenApiRouter<HttpState> {
    let api = OpenApiRouter::new()
        .merge(routes::mail::routes())
        .merge(routes::mailbox::routes())
        .merge(routes::stats::routes())
        .merge(routes::tokens::routes())
        .merge(routes::auth::routes())
        .merge(routes::permissions::routes())
        .merge(routes::domains::routes())
        .merge(routes::users::routes());
    OpenApiRouter::with_openapi(openapi::frame()).nest(BASE, api).merge(health::routes()).merge(docs::routes())
}

/// The whole HTTP side.
///
/// Every request passes [`passage::pass`]. Who asks and whether they may is each handler's own affair, by its
/// signature.
pub fn router(state: HttpState) -> Router {
    let (routes, _) = documented_routes().split_for_parts();
    routes
        .fallback(guard::unknown_path)
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(from_fn_with_state(state.clone(), passage::pass))
        .with_state(state)
}
