//! What every handler can reach.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailapi_model::{Clock, Entropy, Timestamp};
use mailapi_service::Service;

use crate::limits::{LimitStore, MemoryLimits};
use crate::octet_budget::OctetBudget;
use crate::openapi;
use crate::request_id::NameEntropy;
use crate::response_cache::ResponseCache;
use crate::settings::HttpSettings;

/// Maximum total octets of large answers that wait for their clients. A caller takes at most half of it, more than the
/// text of a message of the largest size that the defaults accept. With 128 MiB, stuck readers of such texts brought
/// the process to 298 MiB.
const MAX_ANSWER_BYTES_IN_FLIGHT: usize = 96 * 1024 * 1024;

/// Maximum memory of bodies that are being received or read. The contents of attachments lie on disk.
const MAX_BODY_MEMORY: usize = 64 * 1024 * 1024;

/// What every handler can reach. Cheap to clone; every clone is the same state.
#[derive(Clone)]
pub struct HttpState(Arc<Parts>);

struct Parts {
    service: Service,
    settings: HttpSettings,
    limits: Arc<dyn LimitStore>,
    /// Room for large bodies.
    body_budget: Arc<OctetBudget>,
    /// Memory for bodies.
    memory: Arc<OctetBudget>,
    /// Room for large answers.
    answers: Arc<OctetBudget>,
    response_cache: ResponseCache,
    name_entropy: NameEntropy,
    started: Timestamp,
    document: Bytes,
}

impl HttpState {
    /// Serves `service`; requests are counted in the memory of this process. Time and randomness are the service's.
    #[must_use]
    pub fn new(service: Service, settings: HttpSettings) -> Self {
        Self::with_limit_store(service, settings, Arc::new(MemoryLimits::new()))
    }

    /// The same with requests counted elsewhere.
    #[must_use]
    pub fn with_limit_store(service: Service, settings: HttpSettings, limits: Arc<dyn LimitStore>) -> Self {
        let document = openapi::served(settings.public_url.as_deref()).into();
        let started = service.clock().now();
        let body_budget = OctetBudget::new(settings.max_request_bytes_in_flight);
        let memory = OctetBudget::new(MAX_BODY_MEMORY);
        let answers = OctetBudget::new(MAX_ANSWER_BYTES_IN_FLIGHT);
        let response_cache = ResponseCache::new(settings.kept_page_bytes);
        let name_entropy = NameEntropy::new(Arc::clone(service.entropy()));
        Self(Arc::new(Parts {
            service,
            settings,
            limits,
            body_budget,
            memory,
            answers,
            response_cache,
            name_entropy,
            started,
            document,
        }))
    }

    pub(crate) fn service(&self) -> &Service {
        &self.0.service
    }

    pub(crate) fn settings(&self) -> &HttpSettings {
        &self.0.settings
    }

    /// Room for large bodies.
    pub(crate) fn body_budget(&self) -> &Arc<OctetBudget> {
        &self.0.body_budget
    }

    /// Memory for bodies.
    pub(crate) fn memory(&self) -> &Arc<OctetBudget> {
        &self.0.memory
    }

    /// Room for large answers.
    pub(crate) fn answers(&self) -> &Arc<OctetBudget> {
        &self.0.answers
    }

    /// Pages of folders as they were written.
    pub(crate) fn response_cache(&self) -> &ResponseCache {
        &self.0.response_cache
    }

    pub(crate) fn limits(&self) -> &dyn LimitStore {
        self.0.limits.as_ref()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.0.service.clock().as_ref()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.0.service.entropy().as_ref()
    }

    /// Randomness for the names of requests.
    pub(crate) fn name_entropy(&self) -> &dyn Entropy {
        &self.0.name_entropy
    }

    /// How long the service has been running.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock().now().since(self.0.started)
    }

    /// The OpenAPI document as JSON.
    pub(crate) fn document(&self) -> Bytes {
        self.0.document.clone()
    }
}
