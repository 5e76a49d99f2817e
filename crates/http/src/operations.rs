//! The counters of each operation, by route and method.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use mailapi_metrics::{Metrics, Operation};
use utoipa::openapi::path::{PathItem, Paths};

/// Label of requests for no operation: their paths are chosen by strangers.
const NO_OPERATION: &str = "none";
/// Label of methods that the interface does not use.
const OTHER_METHOD: &str = "other";

/// The counters of all operations.
pub(crate) struct Operations {
    /// By route pattern; few routes have more than two methods.
    by_path: HashMap<String, Vec<(Method, Operation)>>,
    /// Requests for no operation, by method.
    strays: Vec<(Method, Operation)>,
    other: Operation,
}

impl Operations {
    /// Looks up the counters of requests for no operation.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let methods =
            [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
        let strays = methods.into_iter().map(|method| {
            let counters = metrics.operation(NO_OPERATION, name(&method));
            (method, counters)
        });
        let other = metrics.operation(NO_OPERATION, OTHER_METHOD);
        Self { by_path: HashMap::new(), strays: strays.collect(), other }
    }

    /// Looks up the counters of documented operations.
    pub(crate) fn add(&mut self, paths: &Paths, metrics: &Metrics) {
        for (path, item) in &paths.paths {
            self.by_path.entry(path.clone()).or_default().extend(of_path(item, metrics));
        }
    }

    /// Returns the counters for a request.
    pub(crate) fn of(&self, request: &Request) -> Operation {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let operations = route.and_then(|route| self.by_path.get(route));
        let mut candidates = operations.into_iter().chain([&self.strays]).flatten();
        let found = candidates.find(|(method, _)| method == request.method());
        found.map_or(&self.other, |(_, operation)| operation).clone()
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
