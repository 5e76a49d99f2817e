//! The listeners: all are bound before the start is reported, and open and close together.

use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_backend_embedded::net::Shutdown;
use mailapi_backend_embedded::{Authenticators, ListenerSettings, Listeners};
use mailapi_http::{ApiListeners, HttpState};
use mailapi_proxy::{AnnouncingProxies, ProxiedListener, listen};
use mailapi_service::Service;
use mailapi_tls::ServerTls;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::config::{Config, ListenAddress};
use crate::failure::{Failure, Outcome};
use crate::open_files::{connections_of_http, connections_of_mail, raise_limit};
use crate::welcome::Addresses;
use crate::wiring::{Assembly, MailServer};

/// Bound sockets; clients that connect wait until they are opened.
pub(crate) struct ServerListeners {
    http: TcpListener,
    /// `None` if it is off.
    https: Option<TcpListener>,
    /// For monitoring; `None` if it is off.
    metrics: Option<TcpListener>,
    /// `None` with an external mail server.
    mail: Option<Listeners>,
}

impl ServerListeners {
    /// Binds every enabled listener.
    pub(crate) async fn bind(config: &Config) -> Outcome<Self> {
        let http = bind("http.listen", config.http.listen.0)?;
        let https = bind_if_set("http.tls_listen", config.http.tls_listen.0)?;
        let metrics = bind_if_set("metrics.listen", config.metrics.listen.0)?;
        if config.is_external() {
            return Ok(Self { http, https, metrics, mail: None });
        }
        let mail = Listeners::bind(&config.mail.embedded.listen()).await;
        let mail = mail.map_err(|error| {
            let (listener, address, error) = (error.listener, error.address, error.error);
            Failure::new(format!("mail.embedded.{listener}_listen: cannot listen on {address}: {error}"))
        })?;
        Ok(Self { http, https, metrics, mail: Some(mail) })
    }

    /// Returns the addresses; a configured port 0 is replaced by the real one.
    pub(crate) fn addresses(&self, config: &Config) -> Outcome<Addresses> {
        let base_url = Addresses::base_url(config.http.public_url.0.as_deref(), self.http.local_addr()?);
        let mail = self.mail.as_ref().map(Listeners::addresses).unwrap_or_default();
        let metrics = self.metrics.as_ref().map(TcpListener::local_addr).transpose()?;
        let https = self.https.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Addresses { base_url, metrics, https, mail })
    }

    /// Accepts connections until `shutdown`, with the certificate `tls`. The tasks end when the work in flight is
    /// finished, or after the grace period.
    pub(crate) fn open(
        self,
        config: &Config,
        assembly: &Assembly,
        tls: Option<&ServerTls>,
        shutdown: &Shutdown,
    ) -> JoinSet<()> {
        let service = &assembly.service;
        let files = raise_limit();
        let mut tasks = match (self.mail, &assembly.mail) {
            (Some(listeners), MailServer::Embedded(embedded)) => {
                let settings = mail_settings(config, tls, files);
                listeners.open(embedded, settings, authenticators(service), shutdown)
            }
            _ => JoinSet::new(),
        };
        let (mut settings, mut close) = (config.http(), shutdown.clone());
        settings.max_connections = connections_of_http(settings.max_connections, files);
        if let Some(tls) = tls {
            measure_certificate(service, tls.clone());
            settings.tls = Some(tls.clone());
        }
        let state = HttpState::new(service.clone(), settings.clone());
        let router = mailapi_http::router_with(state, mailapi_console::routes());
        if let Some(listener) = self.metrics {
            let (router, settings, mut close) =
                (mailapi_http::metrics_router(service.clone()), settings.clone(), shutdown.clone());
            tasks.spawn(async move {
                mailapi_http::serve(listener, router, &settings, close.requested()).await;
            });
        }
        let trusted = config.trusted_proxies();
        let proxies =
            [ProxiedListener::Http, ProxiedListener::Https].map(|listener| AnnouncingProxies::at(listener, &trusted));
        let listeners = ApiListeners { plain: self.http, encrypted: self.https, tls: tls.cloned(), proxies };
        tasks.spawn(async move {
            mailapi_http::serve(listeners, router, &settings, close.requested()).await;
        });
        tasks
    }
}

/// The service, for all questions of the mail listeners.
fn authenticators(service: &Service) -> Authenticators {
    let asked = Arc::new(service.clone());
    Authenticators { login: asked.clone(), sign: asked.clone(), judge: asked.clone(), inbound: asked }
}

/// Settings of the mail listeners of a process that may open so many files.
fn mail_settings(config: &Config, tls: Option<&ServerTls>, files: u64) -> ListenerSettings {
    let mut settings = config.listeners();
    settings.tls = tls.cloned();
    for limits in [&mut settings.smtp_connections, &mut settings.submission_connections, &mut settings.imap_connections]
    {
        *limits = connections_of_mail(limits.clone(), files);
    }
    settings
}

fn bind_if_set(key: &str, address: Option<ListenAddress>) -> Outcome<Option<TcpListener>> {
    match address {
        Some(ListenAddress(address)) => bind(key, address).map(Some),
        None => Ok(None),
    }
}

fn bind(key: &str, address: SocketAddr) -> Outcome<TcpListener> {
    listen(address).map_err(|error| Failure::new(format!("{key}: cannot listen on {address}: {error}")))
}

/// Shows the remaining validity of the certificate, which may be replaced while it is in use.
fn measure_certificate(service: &Service, tls: ServerTls) {
    let clock = Arc::clone(service.clock());
    service.metrics().before_scrape(move |metrics| {
        let expires_at = tls.validity().map(|validity| validity.expires_at);
        metrics.set_certificate_expiry(expires_at.map(|at| at - clock.now().as_seconds()));
    });
}
