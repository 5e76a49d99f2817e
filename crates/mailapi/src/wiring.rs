//! Puts the parts together. A new mail server behind the API is one arm here.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mailapi_backend::Dns;
use mailapi_backend_embedded::Embedded;
use mailapi_backend_embedded::courier::Courier;
use mailapi_dns::{DnsSettings, NetworkDns};
use mailapi_model::{Clock, Entropy};
use mailapi_service::{Parts, Service};
use mailapi_store::Store;
use mailapi_store::sqlite::Sqlite;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::system::{SystemClock, SystemEntropy};

/// What a server, and every command that works on its data, is made of. Nothing runs by itself yet.
pub(crate) struct Assembly {
    store: Store,
    dns: Arc<dyn Dns>,
    pub(crate) embedded: Embedded,
    pub(crate) service: Service,
}

impl Assembly {
    /// Opens the database, brings its tables up to date, and puts the parts on it.
    pub(crate) async fn open(config: &Config, directory: &DataDir) -> Outcome<Self> {
        let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let file = config.database.file(directory.path())?;
        let failed = |error| Failure::new(format!("the database {} cannot be opened: {error}", file.display()));
        let sqlite = Sqlite::open(&file, config.database.sqlite()).map_err(failed)?;
        let store = Store::on_sqlite(sqlite.clone());
        store.migrate(clock.now()).await.map_err(failed)?;
        let embedded = Embedded::open(sqlite, config.maildrop(), Arc::clone(&clock), Arc::clone(&entropy));
        let embedded = embedded.await.map_err(failed)?;
        let dns = dns(&config.dns())?;
        let service = Service::new(Parts {
            store: store.clone(),
            backend: embedded.backend(),
            dns: Arc::clone(&dns),
            clock,
            entropy,
            settings: config.service(),
        });
        Ok(Self { store, dns, embedded, service })
    }

    /// What takes mail to other servers.
    pub(crate) fn courier(&self, config: &Config) -> Outcome<Courier> {
        let hostname = config.mail.embedded.hostname();
        let maildrop = self.embedded.maildrop().clone();
        let courier = Courier::new(maildrop, hostname, Arc::clone(&self.dns), config.courier()?);
        courier.map_err(|error| Failure::new(format!("mail.embedded.relay: {error}")))
    }

    /// Writes what waits and closes the database.
    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// A machine that names no name server is asked itself, as resolv.conf(5) has it. So a server that only delivers to
/// its own mailboxes needs no DNS to start.
fn dns(settings: &DnsSettings) -> Outcome<Arc<dyn Dns>> {
    const PORT: u16 = 53;
    let network = NetworkDns::new(settings).or_else(|error| {
        tracing::warn!(%error, "this machine itself is asked for names");
        let itself = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        NetworkDns::new(&DnsSettings { servers: vec![itself], ..settings.clone() })
    });
    Ok(Arc::new(network?))
}

/// Does one command's work on the data, whether a server is running on it or not.
pub(crate) async fn with_service(config: &Config, work: impl AsyncFnOnce(Service) -> Outcome) -> Outcome {
    let assembly = Assembly::open(config, &DataDir::open(&config.data_dir)?).await?;
    let outcome = work(assembly.service.clone()).await;
    assembly.close().await;
    outcome
}
