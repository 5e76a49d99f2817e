//! All routes, and the layer around them.

use std::sync::Arc;

use axum::Router;
use tower::layer::layer_fn;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Paths;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::operations::Operations;
use crate::request_layer::RequestLayer;
use crate::state::HttpState;
use crate::{challenge, docs, guard, health, hosted, openapi, routes};

/// Prefix of the API's paths.
const BASE: &str = "/api/v1";

/// The routes of one part of the API, with their parts of the document. Each is created when it is needed: all parts of
/// the document together take several MiB, which the router does not need.
pub(crate) struct Routes(Vec<fn() -> UtoipaMethodRouter<HttpState>>);

impl Routes {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the operations of one path, from [`api_routes`] or [`root_routes`].
    pub(crate) fn routes(mut self, create: fn() -> UtoipaMethodRouter<HttpState>) -> Self {
        self.0.push(create);
        self
    }

    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

/// Creates the operations of one path, as `utoipa_axum::routes` does, below [`BASE`].
macro_rules! api_routes {
    ($($operation:tt)+) => {
        || $crate::router::below_base(utoipa_axum::routes!($($operation)+))
    };
}

/// Creates the operations of one path outside [`BASE`].
macro_rules! root_routes {
    ($($operation:tt)+) => {
        || utoipa_axum::routes!($($operation)+)
    };
}

pub(crate) use {api_routes, root_routes};

/// Prefixes the paths directly: a nested router would rewrite the path of each request.
pub(crate) fn below_base((schemas, paths, methods): UtoipaMethodRouter<HttpState>) -> UtoipaMethodRouter<HttpState> {
    let mut below = Paths::new();
    below.paths = paths.paths.into_iter().map(|(path, item)| (format!("{BASE}{path}"), item)).collect();
    (schemas, below, methods)
}

fn all_routes() -> Routes {
    Routes::new()
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
        .merge(routes::aliases::routes())
        .merge(routes::webhooks::routes())
        .merge(health::routes())
        .merge(docs::routes())
}

/// The document of all routes, in the order of [`all_routes`].
pub(crate) fn document() -> OpenApi {
    let documented = OpenApiRouter::with_openapi(openapi::frame());
    let add = |documented: OpenApiRouter<HttpState>, create: fn() -> _| documented.routes(create());
    all_routes().0.into_iter().fold(documented, add).into_openapi()
}

/// The router with all layers.
pub fn router(state: HttpState) -> Router {
    router_with(state, Router::new())
}

/// The router with all layers and with the pages of another interface, which the document does not contain.
///
/// Every request passes a [`RequestLayer`]. Handlers authenticate and authorize by the extractors in their signatures.
pub fn router_with(state: HttpState, pages: Router<HttpState>) -> Router {
    let mut routes = docs::files();
    let mut operations = Operations::new(state.service().metrics());
    for create in all_routes().0 {
        let (_, paths, methods) = create();
        operations.add(&paths, state.service().metrics());
        routes = paths.paths.keys().fold(routes, |routes, path| routes.route(path, methods.clone()));
    }
    let (passing, operations) = (state.clone(), Arc::new(operations));
    routes
        .merge(challenge::routes())
        .merge(hosted::routes())
        .merge(pages)
        .fallback(guard::unknown_path)
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(layer_fn(move |inner| RequestLayer::new(passing.clone(), Arc::clone(&operations), inner)))
        .with_state(state)
}
