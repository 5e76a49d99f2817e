//! Assembles the parts. A new mail server behind the API adds one arm here.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::{Backend, Buffer, Dns, ZoneDns};
use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, TlsResult};
use mailapi_backend_embedded::{Embedded, MessageStoreSettings};
use mailapi_backend_external::External;
use mailapi_backend_external::bounces::{BounceKey, BounceSettings};
use mailapi_dns::{DnsSettings, DnsSetupError, NetworkDns, ZoneClient};
use mailapi_metrics::OutboundTls;
use mailapi_model::{Clock, Entropy, Secret};
use mailapi_service::domains::ServerKeys;
use mailapi_service::stats::LateInboundLog;
use mailapi_service::{AgentProgram, Metrics, Parts, Service, Settings};
use mailapi_store::postgres::Postgres;
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_store::{Store, StoreError};

use crate::config::{Config, Database, DatabasePlace};
use crate::data_dir::{DataDir, ServerLock, no_installation};
use crate::database_file::{self, DatabaseFile};
use crate::dns_keys::OrderedKeys;
use crate::failure::{Failure, Outcome};
use crate::mail_owner::{self, MailLease, MailPlace};
use crate::reload::LiveSecrets;
use crate::served_database::{self, ReplacedDatabase};
use crate::system::{SystemClock, SystemEntropy};

/// Parts of a server, and of every command that works on its data. Nothing runs yet.
pub(crate) struct Assembly {
    store: Store,
    /// SQLite file of the embedded mail server's mail, or of the accounts.
    file: Option<Sqlite>,
    dns: Arc<dyn Dns>,
    pub(crate) mail: MailServer,
    pub(crate) service: Service,
    /// Secrets that can be replaced while they are in use.
    pub(crate) secrets: LiveSecrets,
    /// The lease of the mail, if its accounts are in PostgreSQL.
    pub(crate) lease: Option<MailLease>,
    /// Keeps the service alive for `LateInboundLog`, which holds a weak reference to it.
    _inbound: Arc<Service>,
}

/// The mail server behind the API.
pub(crate) enum MailServer {
    /// The built-in server.
    Embedded(Embedded),
    /// The operator's own server.
    External(External),
}

impl MailServer {
    fn backend(&self) -> Backend {
        match self {
            Self::Embedded(embedded) => embedded.backend(),
            Self::External(external) => external.backend(),
        }
    }
}

impl MailServer {
    /// Sets the mail server's gauges before each scrape.
    fn measure(&self, metrics: &Metrics, clock: &Arc<dyn Clock>) {
        match self {
            Self::Embedded(embedded) => {
                let embedded = embedded.clone();
                // Its reports are in its own database, so none waits in a log.
                metrics.set_follower_lag(Some(Duration::ZERO));
                metrics.before_scrape(move |metrics| metrics.set_imap_sessions(embedded.imap_sessions()));
            }
            Self::External(external) => {
                let pool = external.imap_pool().clone();
                metrics.before_scrape(move |metrics| metrics.set_imap_sessions(pool.connections()));
                let Some(log) = external.log_follower().cloned() else { return };
                let clock = Arc::clone(clock);
                // By identity: a clock that was set back makes a new loss look old.
                let known = Mutex::new(log.status().gaps);
                metrics.before_scrape(move |metrics| {
                    let status = log.status();
                    metrics.set_follower_lag(status.lag(clock.now()));
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    metrics.count_log_gaps(status.losses_besides(&known) as u64);
                    *known = status.gaps;
                });
            }
        }
    }
}

/// Role of this process.
#[derive(Clone, Copy)]
enum Role<'a> {
    /// Answers requests, and holds the lock of the data directory.
    Server(&'a ServerLock),
    /// Follows the log of messages that other processes submit.
    Follower(&'a ServerLock),
    /// Runs one command.
    Command,
    /// Makes the data directory the one that has the mail.
    Adopter(&'a ServerLock),
}

impl<'a> Role<'a> {
    /// Returns the lock of the data directory, if this process holds it.
    const fn lock(self) -> Option<&'a ServerLock> {
        match self {
            Self::Server(lock) | Self::Follower(lock) | Self::Adopter(lock) => Some(lock),
            Self::Command => None,
        }
    }
}

impl Assembly {
    /// Opens the database, updates its tables, and assembles the parts.
    pub(crate) async fn open(config: &Config, directory: &DataDir) -> Outcome<Self> {
        Self::open_as(config, directory, Role::Command).await
    }

    /// Opens the parts for the server that holds the lock and submits messages to the mail server.
    pub(crate) async fn open_server(config: &Config, directory: &DataDir, lock: &ServerLock) -> Outcome<Self> {
        Self::open_as(config, directory, Role::Server(lock)).await
    }

    /// Opens the parts, and makes the data directory the one that has the mail of accounts in PostgreSQL.
    pub(crate) async fn open_adopting(config: &Config, directory: &DataDir, lock: &ServerLock) -> Outcome<Self> {
        Self::open_as(config, directory, Role::Adopter(lock)).await
    }

    /// Opens the parts for a process that follows the log of messages that other processes submit.
    pub(crate) async fn open_follower(config: &Config, directory: &DataDir, lock: &ServerLock) -> Outcome<Self> {
        Self::open_as(config, directory, Role::Follower(lock)).await
    }

    async fn open_as(config: &Config, directory: &DataDir, role: Role<'_>) -> Outcome<Self> {
        let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
            (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let secrets = LiveSecrets::default();
        let sources: (&dyn Clock, &dyn Entropy) = (clock.as_ref(), entropy.as_ref());
        let (store, mut file) = open_store(config, (directory, role), sources, &secrets).await?;
        let buffer = Buffer::new(config.buffer(directory.path()));
        let inbound_log = Arc::new(LateInboundLog::default());
        let is_one_file = file.is_some() && !config.is_external();
        let node = match role {
            Role::Server(lock) | Role::Adopter(lock) if !is_one_file => Some(directory.node(lock, entropy.as_ref())?),
            Role::Server(_) | Role::Adopter(_) | Role::Follower(_) | Role::Command => None,
        };
        let lease = lease(config, directory, (&store, node.as_deref()), role, sources).await?;
        let mail = if config.is_external() {
            let mut settings = config.external(directory.path())?;
            secrets.add_external(&settings);
            settings.bounces = bounces(config, &store, entropy.as_ref()).await?;
            if let Some(log) = &mut settings.log {
                // With several submitting hosts, each has no record of the others' submissions.
                log.hands_over_here = !matches!(role, Role::Follower(_)) && settings.log_host.is_none();
            }
            MailServer::External(External::open(settings, inbound_log.clone(), Arc::clone(&clock))?)
        } else {
            let usual = || open_file(&Database::usual_file(directory.path()), directory, role);
            let sqlite = file.take().map_or_else(usual, Ok)?;
            file = Some(sqlite.clone());
            let settings = MessageStoreSettings {
                return_key: Some(return_key(&store, &*entropy).await?),
                node: node.clone(),
                ..config.message_store()
            };
            let embedded = Embedded::open(sqlite, settings, Arc::clone(&clock), Arc::clone(&entropy), buffer.clone());
            let failed = |error| Failure::new(format!("the message store cannot be opened: {error}"));
            let embedded = embedded.await.map_err(failed)?;
            MailServer::Embedded(if is_one_file { embedded.following_accounts() } else { embedded })
        };
        let Resolvers { usual: dns, fresh: fresh_dns, zones: zone_dns } = resolvers(&config.dns()?, &clock)?;
        let metrics = Metrics::new();
        mail.measure(&metrics, &clock);
        let service = Service::new(Parts {
            store: store.clone(),
            backend: mail.backend(),
            dns: Arc::clone(&dns),
            fresh_dns,
            zone_dns,
            clock,
            entropy,
            buffer,
            metrics,
            settings: Settings {
                node,
                dns_agent: dns_agent(),
                server_keys: server_keys(config, directory.path()),
                ..config.service()
            },
        });
        let inbound = Arc::new(service.clone());
        inbound_log.attach(&inbound);
        Ok(Self { store, file, dns, mail, service, secrets, lease, _inbound: inbound })
    }

    /// Creates the agent that delivers messages to other servers.
    pub(crate) fn delivery_agent(&self, embedded: &Embedded, config: &Config) -> Outcome<DeliveryAgent> {
        let hostname = config.mail.embedded.hostname();
        let message_store = embedded.message_store().clone();
        let settings = config.delivery_agent()?;
        self.secrets.add_delivery_agent(&settings);
        let delivery_agent = DeliveryAgent::new(message_store, hostname, Arc::clone(&self.dns), settings);
        let delivery_agent = delivery_agent.map_err(|error| Failure::new(format!("mail.embedded.relay: {error}")))?;
        delivery_agent.sign_with(Arc::new(self.service.clone()));
        let counted = delivery_agent.clone();
        self.service.metrics().before_scrape(move |metrics| {
            counted.take_tls_counts().for_each(|(result, count)| metrics.count_outbound_tls(label_of(result), count));
        });
        Ok(delivery_agent)
    }

    /// Returns the SQLite file and its path, if there is one.
    pub(crate) fn database(&self, config: &Config) -> Option<(&Sqlite, PathBuf)> {
        let usual = || Database::usual_file(&config.data_dir);
        let path = match config.database.place(&config.data_dir).ok()? {
            DatabasePlace::Sqlite(file) => file,
            DatabasePlace::Postgres(_) => usual(),
        };
        self.file.as_ref().map(|file| (file, path))
    }

    /// Writes pending data and closes the database.
    pub(crate) async fn close(self) {
        // A database that hangs must not keep the process from its end. Then the lease ends by itself.
        if let Some(lease) = &self.lease
            && tokio::time::timeout(LONGEST_RELEASE, lease.release()).await.is_err()
        {
            tracing::warn!("the database does not answer; the lease of the mail was not released");
        }
        self.store.close().await;
        // Unless accounts are in PostgreSQL, this file is the store's own.
        if let Some(file) = self.file {
            file.close().await;
        }
    }
}

/// Returns the label of a result in the metrics.
const fn label_of(result: TlsResult) -> OutboundTls {
    match result {
        TlsResult::Verified => OutboundTls::Verified,
        TlsResult::Unverified => OutboundTls::Unverified,
        TlsResult::Plain => OutboundTls::Plain,
        TlsResult::NotOffered => OutboundTls::NotOffered,
        TlsResult::HostMismatch => OutboundTls::HostMismatch,
        TlsResult::Expired => OutboundTls::Expired,
        TlsResult::NotTrusted => OutboundTls::NotTrusted,
        TlsResult::Invalid => OutboundTls::Invalid,
        TlsResult::PolicyNotFetched => OutboundTls::PolicyNotFetched,
        TlsResult::PolicyNotAuthentic => OutboundTls::PolicyNotAuthentic,
        TlsResult::PolicyInvalid => OutboundTls::PolicyInvalid,
        TlsResult::TlsaInvalid => OutboundTls::TlsaInvalid,
        TlsResult::DnssecInvalid => OutboundTls::DnssecInvalid,
    }
}

/// Takes the lease of the mail, or checks that a command works where the mail is. Only the built-in mail server has mail of
/// its own, and only accounts in PostgreSQL can be used from several data directories.
async fn lease(
    config: &Config,
    directory: &DataDir,
    (store, node): (&Store, Option<&str>),
    role: Role<'_>,
    sources: (&dyn Clock, &dyn Entropy),
) -> Outcome<Option<MailLease>> {
    if config.is_external() || !store.is_shared() {
        return Ok(None);
    }
    match role {
        Role::Server(_) | Role::Adopter(_) => {
            let adopts = matches!(role, Role::Adopter(_));
            MailLease::take(store, MailPlace { directory, node }, adopts, sources).await.map(Some)
        }
        Role::Command | Role::Follower(_) => {
            let node = directory.known_node()?;
            mail_owner::check(store, MailPlace { directory, node: node.as_deref() }).await?;
            Ok(None)
        }
    }
}

/// Opens the database and updates its tables. Also returns the SQLite file, if the database is one.
async fn open_store(
    config: &Config,
    (directory, role): (&DataDir, Role<'_>),
    (clock, entropy): (&dyn Clock, &dyn Entropy),
    secrets: &LiveSecrets,
) -> Outcome<(Store, Option<Sqlite>)> {
    let place = config.database.place(directory.path())?;
    let (store, file) = match place {
        DatabasePlace::Sqlite(file) => {
            let sqlite = open_file(&file, directory, role)?;
            (Store::on_sqlite(sqlite.clone()), Some(sqlite))
        }
        DatabasePlace::Postgres(url) => {
            secrets.add_database(&url);
            let engine = Postgres::open(*url, config.postgres(), entropy).await;
            let failed = |error| Failure::new(format!("database.url: the server cannot be used: {error}"));
            (Store::on_postgres(engine.map_err(failed)?), None)
        }
    };
    let directory = if config.is_external() { config.mail.external.users.directory()? } else { None };
    let store = match directory {
        Some(directory) => {
            secrets.add_directory(&directory);
            store.with_directory(directory)
        }
        None => store,
    };
    let failed = |error| Failure::new(format!("the tables of the database cannot be updated: {error}"));
    store.migrate(clock.now()).await.map_err(failed)?;
    Ok((store, file))
}

/// Returns the settings of the bounce mailbox, with the key of its addresses.
async fn bounces(config: &Config, store: &Store, entropy: &dyn Entropy) -> Outcome<Option<BounceSettings>> {
    if !config.mail.external.collects_bounces() {
        return Ok(None);
    }
    Ok(config.bounces(return_key(store, entropy).await?))
}

/// Returns the key that authenticates our return addresses. It is generated once and stored in the database, so
/// that every node recognizes the addresses of the others.
async fn return_key(store: &Store, entropy: &dyn Entropy) -> Outcome<BounceKey> {
    const NAME: &str = "return-address";
    let mut fresh = vec![0; BounceKey::BYTES];
    entropy.fill(&mut fresh);
    let failed = |error: String| Failure::new(format!("the key of return addresses cannot be read: {error}"));
    // The key of the first node wins; all other nodes receive the stored one.
    let kept =
        store.secrets().get_or_keep(NAME, Secret::new(fresh)).await.map_err(|error| failed(error.to_string()))?;
    let bytes = kept.into_inner().try_into().map_err(|_| failed("its length is wrong".to_owned()))?;
    Ok(BounceKey::new(bytes))
}

/// Time for which the end waits until the lease is released.
const LONGEST_RELEASE: Duration = Duration::from_secs(5);

/// The reserve for deletions on a full disk: twice the log that SQLite keeps before it writes it into the database.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// Opens a database file. The process that holds the lock records which one; the others open no other one.
fn open_file(file: &Path, directory: &DataDir, role: Role<'_>) -> Outcome<Sqlite> {
    let served = match role.lock() {
        Some(lock) => lock.left().map_or(Ok(None), |left| served_database::check_left(left, file).map(|()| None))?,
        None => served_database::check(directory, file)??,
    };
    let failed = |error| Failure::new(format!("the database {} cannot be opened: {error}", file.display()));
    let DatabaseFile { path, follows_links } = database_file::checked(file)?;
    let open = |served| {
        let reserve_bytes = RESERVE_BYTES;
        Sqlite::open(&path, SqliteSettings { follows_links, served, reserve_bytes, ..SqliteSettings::default() })
    };
    let sqlite = match open(served) {
        // The server has ended since the check, and removed its log.
        Err(StoreError::Moved(_)) if role.lock().is_none() => open(served_database::check(directory, file)??),
        opened => opened,
    };
    let sqlite = sqlite.map_err(failed)?;
    if let Role::Server(lock) = role {
        lock.hold(database_file::opened(&path, follows_links)?, sqlite.home(), file)?;
    }
    role.lock().map_or(Ok(()), |lock| lock.record(sqlite.home()))?;
    Ok(sqlite)
}

/// Returns the keys that the built-in mail ports show. Those of another mail server are its own.
fn server_keys(config: &Config, data_dir: &Path) -> Option<Arc<dyn ServerKeys>> {
    let settings = config.acme(data_dir).filter(|_| !config.is_external())?;
    Some(Arc::new(OrderedKeys(settings)))
}

/// Returns the program for hosted DNS providers, which is installed beside this one.
fn dns_agent() -> AgentProgram {
    const NAME: &str = "mailapi-dns";
    let path = std::env::current_exe().map_or_else(|_| PathBuf::from(NAME), |own| own.with_file_name(NAME));
    AgentProgram::new(path, std::env::vars_os())
}

/// The DNS clients.
struct Resolvers {
    usual: Arc<dyn Dns>,
    /// Without a cache.
    fresh: Arc<dyn Dns>,
    /// Asks the name servers of zones.
    zones: Arc<dyn ZoneDns>,
}

/// Creates the DNS clients.
fn resolvers(settings: &DnsSettings, clock: &Arc<dyn Clock>) -> Outcome<Resolvers> {
    with_name_servers(settings, |settings| {
        let (usual, fresh) = (NetworkDns::new(settings)?, Arc::new(NetworkDns::new(&settings.without_cache())?));
        let zones = ZoneClient::new(Arc::clone(&fresh), Arc::clone(clock));
        Ok(Resolvers { usual: Arc::new(usual), fresh, zones: Arc::new(zones) })
    })
}

/// Creates DNS clients with these settings. Without configured name servers they use this machine, as resolv.conf(5)
/// specifies. So a server that only delivers to its own mailboxes needs no DNS to start.
pub(crate) fn with_name_servers<T>(
    settings: &DnsSettings,
    create: impl Fn(&DnsSettings) -> Result<T, DnsSetupError>,
) -> Outcome<T> {
    const PORT: u16 = 53;
    let created = create(settings).or_else(|error| {
        tracing::warn!(%error, "no usable name servers; falling back to 127.0.0.1");
        let itself = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        create(&DnsSettings { servers: vec![itself], ..settings.clone() })
    });
    Ok(created?)
}

/// Permission of a command to create the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    /// Create it if it is missing.
    Missing,
    /// Never create it: in a wrong directory, the command would work on a new, empty database.
    Nothing,
}

/// Opens the data directory for a command.
pub(crate) fn data_directory(config: &Config, create: Create) -> Outcome<DataDir> {
    if create == Create::Missing {
        return DataDir::open(&config.data_dir);
    }
    let directory = DataDir::existing(&config.data_dir)?;
    check_database(config, &directory)?;
    Ok(directory)
}

/// Checks that each database file exists. A PostgreSQL database is named explicitly, so it cannot be the wrong one.
pub(crate) fn check_database(config: &Config, directory: &DataDir) -> Outcome {
    let Some(file) = sqlite_file(config, directory)? else { return Ok(()) };
    if file.exists() {
        return Ok(());
    }
    // A server that still has the file open is the more helpful reason.
    served_database::check(directory, &file)??;
    Err(no_installation("database", &file))
}

/// Returns the finding of a database file that is not the one of the server.
pub(crate) fn replaced_database(config: &Config, directory: &DataDir) -> Outcome<Option<ReplacedDatabase>> {
    let Some(file) = sqlite_file(config, directory)? else { return Ok(None) };
    Ok(served_database::check(directory, &file)?.err())
}

/// Returns the path of the SQLite file, if there is one.
fn sqlite_file(config: &Config, directory: &DataDir) -> Outcome<Option<PathBuf>> {
    Ok(match config.database.place(directory.path())? {
        DatabasePlace::Sqlite(file) => Some(file),
        DatabasePlace::Postgres(_) if config.is_external() => None,
        // Mail is in a file even then.
        DatabasePlace::Postgres(_) => Some(Database::usual_file(directory.path())),
    })
}

/// Runs one command's work on the service, whether a server is running on it or not.
pub(crate) async fn with_service(
    config: &Config,
    create: Create,
    work: impl AsyncFnOnce(Service) -> Outcome,
) -> Outcome {
    with_assembly(config, create, async |assembly| work(assembly.service.clone()).await).await
}

/// Like [`with_service`], for work on the mail server itself.
pub(crate) async fn with_assembly(
    config: &Config,
    create: Create,
    work: impl AsyncFnOnce(&Assembly) -> Outcome,
) -> Outcome {
    let assembly = Assembly::open(config, &data_directory(config, create)?).await?;
    let outcome = work(&assembly).await;
    assembly.close().await;
    outcome
}
