//! The connection pool: at most as many connections as configured, or fewer if the server has a lower limit.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::{
    ConfigConnectImpl, Connect, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime,
};
use mailapi_model::SharedSecret;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure;
use super::pooled_connection::PooledConnection;
use crate::StoreError;

/// How long a slot stays closed after the server refused its connection. Other clients may have disconnected
/// by then.
const CLOSED: Duration = Duration::from_secs(10);
/// Pause before the only remaining slot connects to a full server again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The type of future that `deadpool` expects.
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connection pool. Callers wait for a connection until the time-out, even while the server refuses further
/// ones.
pub(super) struct Connections {
    pool: Pool,
    permits: Arc<Semaphore>,
    closed: Mutex<Closed>,
    timeout: Duration,
}

/// Slots whose connections the server refused.
#[derive(Default)]
struct Closed {
    count: usize,
    /// When they are reopened.
    until: Option<Instant>,
}

/// Connection settings. The password may be replaced between two connections.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) password: Option<SharedSecret>,
}

impl Target {
    /// Returns the settings for a connection that is opened now.
    pub(super) fn now(&self) -> Config {
        let mut config = self.config.clone();
        if let Some(password) = &self.password {
            config.password(password.get().expose().as_bytes());
        }
        config
    }
}

/// Connects with the current password.
struct ConnectNow {
    target: Target,
    connect: ConfigConnectImpl<MakeRustlsConnect>,
}

impl Connect for ConnectNow {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        self.connect.connect(&self.target.now())
    }
}

impl Connections {
    /// Creates the pool without connecting.
    pub(super) fn new(
        target: Target,
        tls: MakeRustlsConnect,
        count: usize,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        let count = count.max(1);
        let (config, connect) = (target.config.clone(), ConnectNow { target, connect: ConfigConnectImpl { tls } });
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_connect(config, connect, manager_config))
            .max_size(count)
            .wait_timeout(Some(timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| StoreError::unexpected("cannot create the connection pool"))?;
        Ok(Self { pool, permits: Arc::new(Semaphore::new(count)), closed: Mutex::default(), timeout })
    }

    /// Returns a connection with the permit for its slot, which the caller holds while it uses the connection.
    pub(super) async fn get(&self) -> Result<(PooledConnection, OwnedSemaphorePermit), StoreError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            self.open_permits();
            // The slot comes first: the pool would try to open a connection that the server refuses.
            let permit = timeout_at(deadline, self.permits.clone().acquire_owned()).await;
            let permit = permit.map_err(|_| failure::none_free())?.map_err(|_| StoreError::closed())?;
            match self.pool.get().await {
                Ok(connection) => return Ok((PooledConnection::of(connection), permit)),
                // Wait for one of the existing connections instead of failing.
                Err(error) if is_full(&error) && Instant::now() < deadline => self.close_permit(permit).await,
                Err(error) => return Err(failure::unreachable(&error)),
            }
        }
    }

    /// Closes a slot, so that callers wait for the existing connections. The last slot stays open.
    async fn close_permit(&self, permit: OwnedSemaphorePermit) {
        // The guard must not be held across the await below.
        let is_last = {
            let mut closed = self.closed();
            closed.until = Some(Instant::now() + CLOSED);
            let is_last = closed.count + 1 >= self.pool.status().max_size;
            closed.count += usize::from(!is_last);
            is_last
        };
        if is_last {
            sleep(ASK_AGAIN).await;
        } else {
            // Keeps the slot occupied until `open_permits`.
            permit.forget();
        }
    }

    fn open_permits(&self) {
        let mut closed = self.closed();
        if closed.until.is_some_and(|until| until <= Instant::now()) {
            self.permits.add_permits(std::mem::take(&mut *closed).count);
        }
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of connections that the server currently seems to allow.
    pub(super) fn count_allowed(&self) -> usize {
        self.open_permits();
        self.pool.status().max_size.saturating_sub(self.closed().count)
    }

    /// Returns the number of open connections.
    pub(super) fn count(&self) -> usize {
        self.pool.status().size
    }

    /// Closes all connections; later calls fail.
    pub(super) fn close(&self) {
        self.permits.close();
        self.pool.close();
    }
}

/// Returns whether the server, the database or the role has reached its connection limit.
fn is_full(error: &PoolError) -> bool {
    let PoolError::Backend(error) = error else { return false };
    error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
}
