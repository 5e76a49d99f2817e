//! Puts the parts together. A new mail server behind the API is one arm here.

use std::sync::Arc;

use mailapi_backend_embedded::Embedded;
use mailapi_dns::NetworkDns;
use mailapi_model::{Clock, Entropy};
use mailapi_service::Service;
use mailapi_store::Store;
use mailapi_store::sqlite::Sqlite;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::system::{SystemClock, SystemEntropy};

/// The parts of a server, and of every command that works on its data. Nothing runs by itself yet.
pub(crate) struct Parts {
    store: Store,
    pub(crate) embedded: Embedded,
    pub(crate) service: Service,
}

impl Parts {
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
        let dns = NetworkDns::new(&config.dns()).map_err(|error| Failure::new(error.to_string()))?;
        let service = Service::new(mailapi_service::Parts {
            store: store.clone(),
            backend: embedded.backend(),
            dns: Arc::new(dns),
            clock,
            entropy,
            settings: config.service(),
        });
        Ok(Self { store, embedded, service })
    }

    /// Writes what waits and closes the database.
    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// Does one command's work on the data, whether a server is running on it or not.
pub(crate) async fn with_service(config: &Config, work: impl AsyncFnOnce(Service) -> Outcome) -> Outcome {
    let parts = Parts::open(config, &DataDir::open(&config.data_dir)?).await?;
    let outcome = work(parts.service.clone()).await;
    parts.close().await;
    outcome
}
