//! State shared by all handlers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use mailapi_model::{Clock, Connections, Entropy, Timestamp};
use mailapi_service::Service;

use crate::byte_budget::{ByteBudget, byte_budget};
use crate::discard;
use crate::limits::RequestCounts;
use crate::openapi;
use crate::request_id::NameEntropy;
use crate::response_cache::ResponseCache;
use crate::routes::events::EventStreams;
use crate::settings::HttpSettings;

/// Maximum total bytes of large responses that wait for their clients. A caller gets at most half of it, which is more
/// than the text of the largest message that the defaults accept. With 128 MiB, stalled readers of such texts brought
/// the process to 298 MiB.
const MAX_ANSWER_BYTES_IN_FLIGHT: usize = 96 * 1024 * 1024;

/// Maximum memory of bodies that are being received or parsed. A large body needs up to 1.25 MiB, and 0.5 MiB when its long
/// strings are on disk, so that 190 of them arrive at once.
const MAX_BODY_MEMORY: usize = 96 * 1024 * 1024;

/// State shared by all handlers. Cheap to clone; all clones share the same state.
#[derive(Clone)]
pub struct HttpState(Arc<Parts>);

struct Parts {
    service: Service,
    settings: HttpSettings,
    limits: RequestCounts,
    /// Room for large bodies.
    body_budget: Arc<ByteBudget>,
    /// Memory for bodies.
    memory: Arc<ByteBudget>,
    /// Room for large responses.
    answers: Arc<ByteBudget>,
    /// Bodies that are being discarded.
    discards: Connections,
    event_streams: EventStreams,
    response_cache: ResponseCache,
    name_entropy: NameEntropy,
    started: Timestamp,
    document: OnceLock<Bytes>,
}

impl HttpState {
    /// Serves `service` and counts requests in memory. Uses the clock and entropy of the service.
    #[must_use]
    pub fn new(service: Service, settings: HttpSettings) -> Self {
        let started = service.clock().now();
        let body_budget = byte_budget(settings.max_request_bytes_in_flight);
        let memory = byte_budget(MAX_BODY_MEMORY);
        let answers = byte_budget(MAX_ANSWER_BYTES_IN_FLIGHT);
        let comment_interval = settings.comment_interval;
        let response_cache = ResponseCache::new(settings.kept_page_bytes);
        let name_entropy = NameEntropy::new(Arc::clone(service.entropy()));
        Self(Arc::new(Parts {
            service,
            settings,
            limits: RequestCounts::new(),
            body_budget,
            memory,
            answers,
            discards: discard::discards(),
            event_streams: EventStreams::new(comment_interval),
            response_cache,
            name_entropy,
            started,
            document: OnceLock::new(),
        }))
    }

    /// The operations.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &HttpSettings {
        &self.0.settings
    }

    /// Room for large bodies.
    pub(crate) fn body_budget(&self) -> &Arc<ByteBudget> {
        &self.0.body_budget
    }

    /// Memory for bodies.
    pub(crate) fn memory(&self) -> &Arc<ByteBudget> {
        &self.0.memory
    }

    /// Room for large responses.
    pub(crate) fn answers(&self) -> &Arc<ByteBudget> {
        &self.0.answers
    }

    /// Bodies that are being discarded.
    pub(crate) fn discards(&self) -> &Connections {
        &self.0.discards
    }

    /// The open event streams.
    pub(crate) fn event_streams(&self) -> &EventStreams {
        &self.0.event_streams
    }

    /// Cached pages of folders.
    pub(crate) fn response_cache(&self) -> &ResponseCache {
        &self.0.response_cache
    }

    pub(crate) fn limits(&self) -> &RequestCounts {
        &self.0.limits
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.0.service.clock().as_ref()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.0.service.entropy().as_ref()
    }

    /// Randomness for request ids.
    pub(crate) fn name_entropy(&self) -> &dyn Entropy {
        &self.0.name_entropy
    }

    /// Time since the start of the service.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock().now().since(self.0.started)
    }

    /// The OpenAPI document as JSON. The first request creates it: at the start it would take a third of the time and
    /// 4 MiB that most servers never need.
    pub(crate) fn document(&self) -> Bytes {
        let create = || openapi::served(self.0.settings.public_url.as_deref()).into();
        self.0.document.get_or_init(create).clone()
    }
}
