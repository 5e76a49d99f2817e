//! The metrics of one server: a value that is handed down, with a registry of its own.
//!
//! Counters are looked up once, and counting is a relaxed atomic addition. Every label has a fixed set of values, none
//! of which a client chooses. [`Metrics::text`] returns all metrics in the text format of OpenMetrics.

mod http;
mod label;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use http::HttpMetrics;
pub use http::Operation;
pub use label::{CodeClass, Greylisted, Inbound, LogIn, OutboundTls, QueueState, Recipient, SpamCheck, Webhook, Work};
use label::{Counters, Label, LabelSet};

/// Media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of delivery delays in seconds: a local delivery takes milliseconds, a retried one days.
const DELAYS: [f64; 12] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 21_600.0, 86_400.0, 432_000.0];

/// A gauge that is NaN while its value is unknown.
type Reading = Gauge<f64, AtomicU64>;

/// All metrics of one server. Clones are cheap and share their values.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    http: HttpMetrics,
    recipients: Counters<Recipient>,
    delivery_delay: Histogram,
    queue: Family<LabelSet, Reading>,
    queue_oldest: Reading,
    backlog: Family<LabelSet, Reading>,
    attempts: Counters<CodeClass>,
    inbound: Counters<Inbound>,
    greylisted: Counters<Greylisted>,
    spam_checks: Counters<SpamCheck>,
    log_ins: Counters<LogIn>,
    webhooks: Counters<Webhook>,
    outbound_tls: Counters<OutboundTls>,
    imap_sessions: Gauge,
    follower_lag: Reading,
    log_gaps: Counter,
    certificate_expiry: Reading,
    unaccounted: Reading,
    sources: Mutex<Vec<Source>>,
}

/// Sets gauges before each scrape.
type Source = Box<dyn Fn(&Metrics) + Send + Sync>;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates the metrics. All counts are zero, and all readings unknown.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("mailapi");
        registry.register("build", "Version of mailapi", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let http = HttpMetrics::register(&mut registry);
        let recipients = Counters::register(&mut registry, "recipients", "Recipients of messages sent through the API");
        let delivery_delay = Histogram::new(DELAYS);
        let help = "Time from acceptance to delivery of a recipient";
        registry.register_with_unit("delivery_delay", help, Unit::Seconds, delivery_delay.clone());
        let queue = Family::default();
        registry.register("queue_messages", "Messages that are not finished", queue.clone());
        let backlog = Family::default();
        registry.register("background_messages", "Messages that background work has left", backlog.clone());
        let queue_oldest = unknown();
        let help = "Age of the oldest message in the queue; 0 when it is empty";
        registry.register_with_unit("queue_oldest_age", help, Unit::Seconds, queue_oldest.clone());
        let attempts =
            Counters::register(&mut registry, "smtp_attempts", "Delivery attempts by the class of the reply");
        let inbound = Counters::register(&mut registry, "inbound", "Recipients of mail from outside");
        let help = "Messages from outside whose sender is not authenticated, by the decision of greylisting";
        let greylisted = Counters::register(&mut registry, "greylisted", help);
        let help = "Messages from outside by the answer of the spam filter";
        let spam_checks = Counters::register(&mut registry, "spam_checks", help);
        let log_ins = Counters::register(&mut registry, "auth", "Logins with a password, at every listener");
        let webhooks = Counters::register(&mut registry, "webhook_attempts", "Attempts to send an event to a webhook");
        let help = "TLS of connections to other mail servers";
        let outbound_tls = Counters::register(&mut registry, "outbound_tls", help);
        let imap_sessions = Gauge::default();
        let help = "Open IMAP connections: of mail programs, or to the external IMAP server";
        registry.register("imap_sessions", help, imap_sessions.clone());
        let follower_lag = unknown();
        let help = "Time by which reading of delivery reports is behind; 0 when everything is read";
        registry.register_with_unit("log_follower_lag", help, Unit::Seconds, follower_lag.clone());
        let log_gaps = Counter::default();
        registry.register("log_gaps", "Lost parts of the mail server's log", log_gaps.clone());
        let certificate_expiry = unknown();
        let help = "Time until the certificate of the listeners expires; NaN without a certificate";
        registry.register_with_unit("certificate_expiry", help, Unit::Seconds, certificate_expiry.clone());
        let unaccounted = unknown();
        let help = "Accepted recipients without a final status that the mail server no longer has; always 0";
        registry.register("unaccounted_recipients", help, unaccounted.clone());
        Self(Arc::new(Inner {
            registry,
            http,
            recipients,
            delivery_delay,
            queue,
            queue_oldest,
            backlog,
            attempts,
            inbound,
            greylisted,
            spam_checks,
            log_ins,
            webhooks,
            outbound_tls,
            imap_sessions,
            follower_lag,
            log_gaps,
            certificate_expiry,
            unaccounted,
            sources: Mutex::default(),
        }))
    }

    /// Returns the counters of an HTTP operation. Look them up once: each call searches by the names.
    #[must_use]
    pub fn operation(&self, operation: impl Into<Cow<'static, str>>, method: &'static str) -> Operation {
        self.0.http.operation(operation.into(), method)
    }

    /// Counts recipients of sent mail.
    pub fn count_recipients(&self, outcome: Recipient, count: u64) {
        self.0.recipients.add(outcome, count);
    }

    /// Notes the time from acceptance to delivery.
    pub fn note_delivery_delay(&self, delay: Duration) {
        self.0.delivery_delay.observe(delay.as_secs_f64());
    }

    /// Counts a delivery attempt.
    pub fn count_attempt(&self, class: CodeClass) {
        self.0.attempts.add(class, 1);
    }

    /// Counts a recipient of mail from outside.
    pub fn count_inbound(&self, outcome: Inbound) {
        self.0.inbound.add(outcome, 1);
    }

    /// Counts a message that greylisting decided about.
    pub fn count_greylisted(&self, result: Greylisted) {
        self.0.greylisted.add(result, 1);
    }

    /// Counts a message that the spam filter was asked about.
    pub fn count_spam_check(&self, result: SpamCheck) {
        self.0.spam_checks.add(result, 1);
    }

    /// Counts a login.
    pub fn count_log_in(&self, result: LogIn) {
        self.0.log_ins.add(result, 1);
    }

    /// Counts an attempt to send an event to a webhook.
    pub fn count_webhook_attempt(&self, result: Webhook) {
        self.0.webhooks.add(result, 1);
    }

    /// Counts connections to other mail servers.
    pub fn count_outbound_tls(&self, result: OutboundTls, count: u64) {
        self.0.outbound_tls.add(result, count);
    }

    /// Sets the number of messages in a state; `None` if it is unknown.
    pub fn set_queue(&self, state: QueueState, messages: Option<u64>) {
        set(&self.0.queue.get_or_create_owned(&[(QueueState::NAME, state.value())]), messages.map(as_f64));
    }

    /// Sets the number of messages that background work has left; `None` if it is unknown.
    pub fn set_backlog(&self, work: Work, messages: Option<u64>) {
        set(&self.0.backlog.get_or_create_owned(&[(Work::NAME, work.value())]), messages.map(as_f64));
    }

    /// Sets the age of the oldest message in the queue; `None` if it is unknown.
    pub fn set_queue_oldest(&self, age: Option<Duration>) {
        set(&self.0.queue_oldest, age.map(|age| age.as_secs_f64()));
    }

    /// Sets the number of open IMAP connections.
    pub fn set_imap_sessions(&self, count: usize) {
        self.0.imap_sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the time by which reading of delivery reports is behind; `None` if it is unknown.
    pub fn set_follower_lag(&self, lag: Option<Duration>) {
        set(&self.0.follower_lag, lag.map(|lag| lag.as_secs_f64()));
    }

    /// Counts lost parts of the log.
    pub fn count_log_gaps(&self, count: u64) {
        self.0.log_gaps.inc_by(count);
    }

    /// Sets the seconds until the certificate expires, negative afterwards; `None` without a certificate.
    pub fn set_certificate_expiry(&self, seconds: Option<i64>) {
        // Exact up to 285 million years.
        #[expect(clippy::cast_precision_loss, reason = "seconds of a certificate's lifetime")]
        set(&self.0.certificate_expiry, seconds.map(|seconds| seconds as f64));
    }

    /// Sets the number of lost recipients; `None` if it is unknown.
    pub fn set_unaccounted(&self, count: Option<u64>) {
        set(&self.0.unaccounted, count.map(as_f64));
    }

    /// Adds a function that sets gauges before each scrape. Nothing runs between scrapes.
    pub fn before_scrape(&self, source: impl Fn(&Self) + Send + Sync + 'static) {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// Returns all metrics as text.
    #[must_use]
    pub fn text(&self) -> String {
        for source in self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            source(self);
        }
        let mut text = String::new();
        encode(&mut text, &self.0.registry).expect("a String takes every text");
        text
    }
}

fn unknown() -> Reading {
    let reading = Reading::default();
    set(&reading, None);
    reading
}

fn set(reading: &Reading, value: Option<f64>) {
    reading.set(value.unwrap_or(f64::NAN));
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn unknown_readings_are_not_numbers() {
        let metrics = Metrics::new();
        let text = metrics.text();
        assert!(text.contains("\nmailapi_unaccounted_recipients NaN\n"), "{text}");
        metrics.set_unaccounted(Some(0));
        metrics.set_queue(QueueState::Deferred, Some(3));
        metrics.set_certificate_expiry(Some(-5));
        let text = metrics.text();
        for line in [
            "mailapi_unaccounted_recipients 0.0",
            "mailapi_queue_messages{state=\"deferred\"} 3.0",
            "mailapi_certificate_expiry_seconds -5.0",
        ] {
            assert!(text.contains(line), "{line} is missing from {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn clones_share_counts_and_servers_do_not() {
        let (here, elsewhere) = (Metrics::new(), Metrics::new());
        here.clone().count_log_in(LogIn::Refused);
        let line = "mailapi_auth_total{result=\"refused\"} 1\n";
        assert!(here.text().contains(line));
        assert!(!elsewhere.text().contains(line));
    }

    #[test]
    fn sources_run_once_for_each_scrape() {
        let (metrics, runs) = (Metrics::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&runs);
        metrics.before_scrape(move |metrics| metrics.set_imap_sessions(counted.fetch_add(1, Ordering::Relaxed) + 1));
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        assert!(metrics.text().contains("\nmailapi_imap_sessions 1\n"));
        assert!(metrics.text().contains("\nmailapi_imap_sessions 2\n"));
    }
}
