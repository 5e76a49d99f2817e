//! The listeners: all are bound before the start is reported, and open and close together.

use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_backend_embedded::net::{ServerTls, Shutdown};
use mailapi_backend_embedded::{Authenticators, Listeners};
use mailapi_http::HttpState;
use mailapi_service::Service;
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
    /// For monitoring; `None` if it is off.
    metrics: Option<TcpListener>,
    /// `None` with an external mail server.
    mail: Option<Listeners>,
}

impl ServerListeners {
    /// Binds every enabled listener.
    pub(crate) async fn bind(config: &Config) -> Outcome<Self> {
        let http = bind("http.listen", config.http.listen.0).await?;
        let metrics = match config.metrics.listen.0 {
            Some(ListenAddress(address)) => Some(bind("metrics.listen", address).await?),
            None => None,
        };
        if config.is_external() {
            return Ok(Self { http, metrics, mail: None });
        }
        let mail = Listeners::bind(&config.mail.embedded.listen()).await;
        let mail = mail.map_err(|error| {
            let (listener, address, error) = (error.listener, error.address, error.error);
            Failure::new(format!("mail.embedded.{listener}_listen: cannot listen on {address}: {error}"))
        })?;
        Ok(Self { http, metrics, mail: Some(mail) })
    }

    /// Returns the addresses; a configured port 0 is replaced by the real one.
    pub(crate) fn addresses(&self, config: &Config) -> Outcome<Addresses> {
        let base_url = Addresses::base_url(config.http.public_url.0.as_deref(), self.http.local_addr()?);
        let mail = self.mail.as_ref().map(Listeners::addresses).unwrap_or_default();
        let metrics = self.metrics.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Addresses { base_url, metrics, smtp: mail.smtp, submission: mail.submission, imap: mail.imap })
    }

    /// Accepts connections until `shutdown`. The tasks end when the work in flight is finished, or after the grace
    /// period. Also returns the certificate that the listeners use.
    pub(crate) fn open(
        self,
        config: &Config,
        assembly: &Assembly,
        shutdown: &Shutdown,
    ) -> Outcome<(JoinSet<()>, Option<ServerTls>)> {
        let service = &assembly.service;
        let files = raise_limit();
        let mut tls = None;
        let mut tasks = match (self.mail, &assembly.mail) {
            (Some(listeners), MailServer::Embedded(embedded)) => {
                let asked = Arc::new(service.clone());
                let authenticators =
                    Authenticators { login: asked.clone(), sign: asked.clone(), judge: asked.clone(), inbound: asked };
                let mut settings = config.listeners()?;
                for limits in [
                    &mut settings.smtp_connections,
                    &mut settings.submission_connections,
                    &mut settings.imap_connections,
                ] {
                    *limits = connections_of_mail(limits.clone(), files);
                }
                tls.clone_from(&settings.tls);
                measure_certificate(service, tls.clone());
                listeners.open(embedded, settings, authenticators, shutdown)
            }
            _ => JoinSet::new(),
        };
        let (mut settings, mut close) = (config.http(), shutdown.clone());
        settings.max_connections = connections_of_http(settings.max_connections, files);
        let router = mailapi_http::router(HttpState::new(service.clone(), settings.clone()));
        if let Some(listener) = self.metrics {
            let (router, settings, mut close) =
                (mailapi_http::metrics_router(service.clone()), settings.clone(), shutdown.clone());
            tasks.spawn(async move {
                mailapi_http::serve(listener, router, &settings, close.requested()).await;
            });
        }
        tasks.spawn(async move {
            mailapi_http::serve(self.http, router, &settings, close.requested()).await;
        });
        Ok((tasks, tls))
    }
}

async fn bind(key: &str, address: SocketAddr) -> Outcome<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::new(format!("{key}: cannot listen on {address}: {error}")))
}

/// Shows the remaining validity of the certificate, which may be replaced while it is in use.
fn measure_certificate(service: &Service, tls: Option<ServerTls>) {
    let Some(tls) = tls else { return };
    let clock = Arc::clone(service.clock());
    service.metrics().before_scrape(move |metrics| {
        metrics.set_certificate_expiry(tls.expires_at().map(|at| at - clock.now().as_seconds()));
    });
}
