//! The listeners: all are bound before the start is reported, and open and close together.

use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_backend_embedded::net::{ServerTls, Shutdown};
use mailapi_backend_embedded::{Authenticators, Listeners};
use mailapi_http::HttpState;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::open_files::{connections_of_http, connections_of_mail, raise_limit};
use crate::welcome::Addresses;
use crate::wiring::{Assembly, MailServer};

/// Bound sockets; clients that connect wait until they are opened.
pub(crate) struct ServerListeners {
    http: TcpListener,
    /// `None` with an external mail server.
    mail: Option<Listeners>,
}

impl ServerListeners {
    /// Binds every enabled listener.
    pub(crate) async fn bind(config: &Config) -> Outcome<Self> {
        let http = bind_http(config.http.listen.0).await?;
        if config.is_external() {
            return Ok(Self { http, mail: None });
        }
        let mail = Listeners::bind(&config.mail.embedded.listen()).await;
        let mail = mail.map_err(|error| {
            let (listener, address, error) = (error.listener, error.address, error.error);
            Failure::new(format!("mail.embedded.{listener}_listen: cannot listen on {address}: {error}"))
        })?;
        Ok(Self { http, mail: Some(mail) })
    }

    /// Returns the addresses; a configured port 0 is replaced by the real one.
    pub(crate) fn addresses(&self, config: &Config) -> Outcome<Addresses> {
        let base_url = Addresses::base_url(config.http.public_url.0.as_deref(), self.http.local_addr()?);
        let mail = self.mail.as_ref().map(Listeners::addresses).unwrap_or_default();
        Ok(Addresses { base_url, smtp: mail.smtp, submission: mail.submission, imap: mail.imap })
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
                let authenticators = Authenticators { login: asked.clone(), sign: asked.clone(), inbound: asked };
                let mut settings = config.listeners()?;
                for limits in [
                    &mut settings.smtp_connections,
                    &mut settings.submission_connections,
                    &mut settings.imap_connections,
                ] {
                    *limits = connections_of_mail(limits.clone(), files);
                }
                tls.clone_from(&settings.tls);
                listeners.open(embedded, settings, authenticators, shutdown)
            }
            _ => JoinSet::new(),
        };
        let (mut settings, mut close) = (config.http(), shutdown.clone());
        settings.max_connections = connections_of_http(settings.max_connections, files);
        let router = mailapi_http::router(HttpState::new(service.clone(), settings.clone()));
        tasks.spawn(async move {
            mailapi_http::serve(self.http, router, &settings, close.requested()).await;
        });
        Ok((tasks, tls))
    }
}

async fn bind_http(address: SocketAddr) -> Outcome<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::new(format!("http.listen: cannot listen on {address}: {error}")))
}
