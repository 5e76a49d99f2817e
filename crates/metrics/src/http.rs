//! Metrics of the HTTP interface.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the time for a request in seconds. A token check takes less than a millisecond, a search seconds.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Statuses that the interface uses, in ascending order. Others are counted too, by a slower look-up.
const STATUSES: [u16; 24] = [
    200, 201, 202, 204, 206, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 413, 415, 416, 422, 429, 500,
    503,
];

/// Operation, method and status of a request.
type RequestLabels = [(&'static str, Text); 3];
type OperationLabel = [(&'static str, Text); 1];

/// A label value.
type Text = Cow<'static, str>;

pub(crate) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<OperationLabel, Histogram, Durations>,
}

#[derive(Clone)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS)
    }
}

impl HttpMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register("http_requests", "HTTP requests by operation, method and status", requests.clone());
        let durations = Family::new_with_constructor(Durations);
        let help = "Time from the head of a request to the head of its response";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, durations.clone());
        Self { requests, durations }
    }

    pub(crate) fn operation(&self, operation: Text, method: &'static str) -> Operation {
        Operation(Arc::new(Cells {
            operation,
            method,
            requests: self.requests.clone(),
            counters: Default::default(),
            durations: self.durations.clone(),
            duration: OnceLock::new(),
        }))
    }
}

/// Counters of one operation and method. Their series appear with the first request.
#[derive(Clone)]
pub struct Operation(Arc<Cells>);

struct Cells {
    operation: Text,
    method: &'static str,
    requests: Family<RequestLabels, Counter>,
    /// In the order of [`STATUSES`].
    counters: [OnceLock<Counter>; STATUSES.len()],
    durations: Family<OperationLabel, Histogram, Durations>,
    duration: OnceLock<Histogram>,
}

impl Operation {
    /// Counts a completed request.
    pub fn count(&self, status: u16, took: Duration) {
        let cells = &*self.0;
        match STATUSES.binary_search(&status) {
            Ok(place) => cells.counters[place].get_or_init(|| cells.counter(status)).inc(),
            Err(_) => cells.counter(status).inc(),
        };
        let duration = cells.duration.get_or_init(|| {
            let label = [("operation", cells.operation.clone())];
            cells.durations.get_or_create_owned(&label)
        });
        duration.observe(took.as_secs_f64());
    }
}

impl Cells {
    fn counter(&self, status: u16) -> Counter {
        self.requests.get_or_create_owned(&[
            ("operation", self.operation.clone()),
            ("method", self.method.into()),
            ("status", status.to_string().into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn statuses_are_in_ascending_order() {
        assert!(STATUSES.is_sorted());
    }

    #[test]
    fn every_status_is_counted() {
        let metrics = Metrics::new();
        let operation = metrics.operation("list_users", "GET");
        for status in [200, 200, 418] {
            operation.count(status, Duration::from_millis(3));
        }
        // Another look-up of the same operation shares the counts.
        metrics.operation("list_users", "GET").count(418, Duration::from_millis(3));
        let text = metrics.text();
        let of_operation = "operation=\"list_users\"";
        for line in [
            format!("mailapi_http_requests_total{{{of_operation},method=\"GET\",status=\"200\"}} 2\n"),
            format!("mailapi_http_requests_total{{{of_operation},method=\"GET\",status=\"418\"}} 2\n"),
            format!("mailapi_http_request_duration_seconds_bucket{{le=\"0.0025\",{of_operation}}} 0\n"),
            format!("mailapi_http_request_duration_seconds_bucket{{le=\"0.005\",{of_operation}}} 4\n"),
        ] {
            assert!(text.contains(&line), "{line} is missing from {text}");
        }
    }
}
