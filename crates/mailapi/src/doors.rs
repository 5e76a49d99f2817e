//! The listeners: bound before anything is promised, opened together, closed together.

use std::net::SocketAddr;

use mailapi_http::HttpState;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::background::Stop;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::welcome::Addresses;
use crate::wiring::Parts;

/// Sockets that are bound: whoever connects waits until they are opened.
pub(crate) struct Doors {
    http: TcpListener,
}

impl Doors {
    /// Binds every listener that is switched on.
    pub(crate) async fn bind(config: &Config) -> Outcome<Self> {
        Ok(Self { http: bind("http.listen", config.http.listen).await? })
    }

    /// Where they can be reached; a port 0 of the configuration has become a real one.
    pub(crate) fn addresses(&self, config: &Config) -> Outcome<Addresses> {
        let base_url = Addresses::base_url(config.http.public_url.0.as_deref(), self.http.local_addr()?);
        Ok(Addresses { base_url, smtp: None, submission: None, imap: None })
    }

    /// Lets everybody in, until `stop`. The tasks end when what was in flight is finished, or after the grace.
    pub(crate) fn open(self, config: &Config, parts: &Parts, stop: &Stop) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let (settings, mut stop_http) = (config.http(), stop.clone());
        let router = mailapi_http::router(HttpState::new(parts.service.clone(), settings.clone()));
        tasks.spawn(async move {
            mailapi_http::serve(self.http, router, &settings, stop_http.requested()).await;
        });
        tasks
    }
}

async fn bind(key: &str, address: SocketAddr) -> Outcome<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::new(format!("{key}: cannot listen on {address}: {error}")))
}
