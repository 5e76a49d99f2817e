//! The counters of each operation, by route and method.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use mailapi_metrics::{Metrics, Operation};
use utoipa::openapi::path::{PathItem, Paths};

/// Label of requests for no operation: their paths are chosen by strangers.
const NO_OPERATION: &str = "none";
/// Label of methods that the interface does not use.
const OTHER_METHOD: &str = "other";

/// The counters of all operations. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Operations(Arc<Known>);

struct Known {
    /// By route pattern; few routes have more than two methods.
    by_path: HashMap<String, Vec<(Method, Operation)>>,
    /// Requests for no operation, by method.
    strays: Vec<(Method, Operation)>,
    other: Operation,
}

impl Operations {
    /// Looks up the counters of all documented operations.
    pub(crate) fn new(paths: &Paths, metrics: &Metrics) -> Self {
        let by_path = paths.paths.iter().map(|(path, item)| (path.clone(), of_path(item, metrics))).collect();
        let methods =
            [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
        let strays = methods.into_iter().map(|method| {
            let counters = metrics.operation(NO_OPERATION, name(&method));
            (method, counters)
        });
        let strays = strays.collect();
        Self(Arc::new(Known { by_path, strays, other: metrics.operation(NO_OPERATION, OTHER_METHOD) }))
    }

    /// Returns the counters for a request.
    pub(crate) fn of(&self, request: &Request) -> Operation {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let operations = route.and_then(|route| self.0.by_path.get(route));
        let mut candidates = operations.into_iter().chain([&self.0.strays]).flatten();
        let found = candidates.find(|(method, _)| method == request.method());
        found.map_or(&self.0.other, |(_, operation)| operation).clone()
    }
}

fn of_path(item: &PathItem, metrics: &Metrics) -> Vec<(Method, Operation)> {
    let operations = [
        (Method::GET, &item.get),
        // The router answers HEAD by the handler of GET.
        (Method::HEAD, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::DELETE, &item.delete),
    ];
    let counters = |(method, operation): (Method, &Option<utoipa::openapi::path::Operation>)| {
        let id = operation.as_ref()?.operation_id.clone()?;
        let counters = metrics.operation(id, name(&method));
        Some((method, counters))
    };
    operations.into_iter().filter_map(counters).collect()
}

fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER_METHOD,
    }
}
