//! The store and its migrations.

use std::sync::Arc;

use mailapi_model::Timestamp;

use crate::db::{Db, Stmt};
use crate::directory::{Copies, Directory};
use crate::migration::{Migration, Schema};
use crate::name_locks::NameLocks;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::{
    Accounts, Aliases, AppPasswords, DeliveryLog, DkimKeys, DnsChanges, DnsProviders, Domains, Events, ForeignChanges,
    Greylist, MailOwners, Permissions, Rules, Secrets, Sent, Stats, StoreError, Tokens, WaitingMails, Webhooks,
};

/// The migrations for SQLite; a released migration never changes.
pub(crate) const SQLITE_MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../migrations/sqlite/0001_accounts.sql") },
    Migration { version: 2, sql: include_str!("../migrations/sqlite/0002_mail.sql") },
    Migration { version: 3, sql: include_str!("../migrations/sqlite/0003_stats.sql") },
    Migration { version: 4, sql: include_str!("../migrations/sqlite/0004_lookup_views.sql") },
    Migration { version: 5, sql: include_str!("../migrations/sqlite/0005_sent_counts.sql") },
    Migration { version: 6, sql: include_str!("../migrations/sqlite/0006_secrets.sql") },
    Migration { version: 7, sql: include_str!("../migrations/sqlite/0007_directory_copies.sql") },
    Migration { version: 8, sql: include_str!("../migrations/sqlite/0008_approved_and_gone.sql") },
    Migration { version: 9, sql: include_str!("../migrations/sqlite/0009_members_of_aliases.sql") },
    Migration { version: 10, sql: include_str!("../migrations/sqlite/0010_who_hands_over.sql") },
    Migration { version: 11, sql: include_str!("../migrations/sqlite/0011_former_names.sql") },
    Migration { version: 12, sql: include_str!("../migrations/sqlite/0012_dkim_selectors.sql") },
    Migration { version: 13, sql: include_str!("../migrations/sqlite/0013_sessions_ended.sql") },
    Migration { version: 14, sql: include_str!("../migrations/sqlite/0014_as_given.sql") },
    Migration { version: 15, sql: include_str!("../migrations/sqlite/0015_names.sql") },
    Migration { version: 16, sql: include_str!("../migrations/sqlite/0016_events.sql") },
    Migration { version: 17, sql: include_str!("../migrations/sqlite/0017_webhooks.sql") },
    Migration { version: 18, sql: include_str!("../migrations/sqlite/0018_webhook_authors.sql") },
    Migration { version: 19, sql: include_str!("../migrations/sqlite/0019_received_mail.sql") },
    Migration { version: 20, sql: include_str!("../migrations/sqlite/0020_authentication.sql") },
    Migration { version: 21, sql: include_str!("../migrations/sqlite/0021_aliases.sql") },
    Migration { version: 22, sql: include_str!("../migrations/sqlite/0022_app_passwords.sql") },
    Migration { version: 23, sql: include_str!("../migrations/sqlite/0023_rules.sql") },
    Migration { version: 24, sql: include_str!("../migrations/sqlite/0024_greylist.sql") },
    Migration { version: 25, sql: include_str!("../migrations/sqlite/0025_sieve.sql") },
    Migration { version: 26, sql: include_str!("../migrations/sqlite/0026_save_sent.sql") },
    Migration { version: 27, sql: include_str!("../migrations/sqlite/0027_bounded_rows.sql") },
    Migration { version: 28, sql: include_str!("../migrations/sqlite/0028_mail_owner.sql") },
    Migration { version: 29, sql: include_str!("../migrations/sqlite/0029_sieve_of_all.sql") },
    Migration { version: 30, sql: include_str!("../migrations/sqlite/0030_recipient.sql") },
    Migration { version: 31, sql: include_str!("../migrations/sqlite/0031_senders_of_aliases.sql") },
    Migration { version: 32, sql: include_str!("../migrations/sqlite/0032_dns_changes.sql") },
    Migration { version: 33, sql: include_str!("../migrations/sqlite/0033_dkim_states.sql") },
    Migration { version: 34, sql: include_str!("../migrations/sqlite/0034_hosted_dns.sql") },
];

/// The same migrations for PostgreSQL.
pub(crate) const POSTGRES_MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../migrations/postgres/0001_accounts.sql") },
    Migration { version: 2, sql: include_str!("../migrations/postgres/0002_mail.sql") },
    Migration { version: 3, sql: include_str!("../migrations/postgres/0003_stats.sql") },
    Migration { version: 4, sql: include_str!("../migrations/postgres/0004_lookup_views.sql") },
    Migration { version: 5, sql: include_str!("../migrations/postgres/0005_sent_counts.sql") },
    Migration { version: 6, sql: include_str!("../migrations/postgres/0006_secrets.sql") },
    Migration { version: 7, sql: include_str!("../migrations/postgres/0007_directory_copies.sql") },
    Migration { version: 8, sql: include_str!("../migrations/postgres/0008_approved_and_gone.sql") },
    Migration { version: 9, sql: include_str!("../migrations/postgres/0009_members_of_aliases.sql") },
    Migration { version: 10, sql: include_str!("../migrations/postgres/0010_who_hands_over.sql") },
    Migration { version: 11, sql: include_str!("../migrations/postgres/0011_former_names.sql") },
    Migration { version: 12, sql: include_str!("../migrations/postgres/0012_dkim_selectors.sql") },
    Migration { version: 13, sql: include_str!("../migrations/postgres/0013_sessions_ended.sql") },
    Migration { version: 14, sql: include_str!("../migrations/postgres/0014_as_given.sql") },
    Migration { version: 15, sql: include_str!("../migrations/postgres/0015_names.sql") },
    Migration { version: 16, sql: include_str!("../migrations/postgres/0016_events.sql") },
    Migration { version: 17, sql: include_str!("../migrations/postgres/0017_webhooks.sql") },
    Migration { version: 18, sql: include_str!("../migrations/postgres/0018_webhook_authors.sql") },
    Migration { version: 19, sql: include_str!("../migrations/postgres/0019_received_mail.sql") },
    Migration { version: 20, sql: include_str!("../migrations/postgres/0020_authentication.sql") },
    Migration { version: 21, sql: include_str!("../migrations/postgres/0021_aliases.sql") },
    Migration { version: 22, sql: include_str!("../migrations/postgres/0022_app_passwords.sql") },
    Migration { version: 23, sql: include_str!("../migrations/postgres/0023_rules.sql") },
    Migration { version: 24, sql: include_str!("../migrations/postgres/0024_greylist.sql") },
    Migration { version: 25, sql: include_str!("../migrations/postgres/0025_sieve.sql") },
    Migration { version: 26, sql: include_str!("../migrations/postgres/0026_save_sent.sql") },
    Migration { version: 27, sql: include_str!("../migrations/postgres/0027_bounded_rows.sql") },
    Migration { version: 28, sql: include_str!("../migrations/postgres/0028_mail_owner.sql") },
    Migration { version: 29, sql: include_str!("../migrations/postgres/0029_sieve_of_all.sql") },
    Migration { version: 30, sql: include_str!("../migrations/postgres/0030_recipient.sql") },
    Migration { version: 31, sql: include_str!("../migrations/postgres/0031_senders_of_aliases.sql") },
    Migration { version: 32, sql: include_str!("../migrations/postgres/0032_dns_changes.sql") },
    Migration { version: 33, sql: include_str!("../migrations/postgres/0033_dkim_states.sql") },
    Migration { version: 34, sql: include_str!("../migrations/postgres/0034_hosted_dns.sql") },
];

/// The component under which the migrations of this crate are recorded.
pub(crate) const COMPONENT: &str = "store";

/// The tables of this crate in a SQLite file.
pub const SQLITE_SCHEMA: Schema = Schema { component: COMPONENT, migrations: SQLITE_MIGRATIONS };

/// Accounts, domains, tokens, permissions, sent mail and delivery events. Clones share one database.
#[derive(Debug, Clone)]
pub struct Store {
    db: Db,
    directory: Option<Directory>,
    name_locks: Arc<NameLocks>,
}

/// Key of the row that health checks write; its value is not secret.
const PROBE: &str = "health-check";
const PROBE_BYTES: usize = 1024;

impl Store {
    /// Returns a store in a SQLite file.
    #[must_use]
    pub fn on_sqlite(engine: Sqlite) -> Self {
        Self { db: Db::Sqlite(engine), directory: None, name_locks: Arc::default() }
    }

    /// Returns a store in a PostgreSQL database, possibly shared with other nodes.
    #[must_use]
    pub fn on_postgres(engine: Postgres) -> Self {
        Self { db: Db::Postgres(engine), directory: None, name_locks: Arc::default() }
    }

    /// Adds an external user database with its mailboxes.
    #[must_use]
    pub fn with_directory(self, directory: Directory) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Returns the external user database, if there is one.
    #[must_use]
    pub const fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// Returns the local copies of external mailboxes.
    #[must_use]
    pub const fn copies(&self) -> Copies<'_> {
        Copies(&self.db)
    }

    /// Applies missing migrations; returns their number.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] when the database was migrated by a newer version of this program.
    pub async fn migrate(&self, now: Timestamp) -> Result<usize, StoreError> {
        match &self.db {
            Db::Sqlite(engine) => engine.migrate(COMPONENT, SQLITE_MIGRATIONS, now).await,
            Db::Postgres(engine) => engine.migrate(COMPONENT, POSTGRES_MIGRATIONS, now).await,
        }
    }

    /// Writes a row, to check that the database accepts writes.
    ///
    /// # Errors
    /// The reason why it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if let Db::Sqlite(engine) = &self.db {
            engine.keeps()?;
            engine.has_room()?;
        }
        // As long as a sent message, so that the check also needs disk space.
        let sql = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2";
        let probe = Stmt::new(sql).bind(PROBE).bind(&[0x55; PROBE_BYTES][..]);
        self.db.execute(probe).await.map(drop)
    }

    /// Returns whether other nodes may use the same data at the same time.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.db, Db::Postgres(_))
    }

    /// Returns the counter of changes that other processes and nodes made to cacheable tables: accounts,
    /// domains, keys, tokens and permissions. Caches discard their rows when it grows.
    #[must_use]
    pub fn foreign_changes(&self) -> ForeignChanges {
        match &self.db {
            Db::Sqlite(engine) => engine.foreign_changes(),
            Db::Postgres(engine) => engine.foreign_changes(),
        }
    }

    /// Returns a counter that grows when another process or node may have stored events.
    #[must_use]
    pub fn foreign_events(&self) -> ForeignChanges {
        match &self.db {
            Db::Sqlite(engine) => engine.foreign_changes(),
            Db::Postgres(engine) => engine.foreign_events(),
        }
    }

    /// Writes waiting changes and closes the database, for all clones.
    pub async fn close(&self) {
        match &self.db {
            Db::Sqlite(engine) => engine.close().await,
            Db::Postgres(engine) => engine.close().await,
        }
    }

    pub(crate) const fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn name_locks(&self) -> &NameLocks {
        &self.name_locks
    }

    /// The domains.
    #[must_use]
    pub const fn domains(&self) -> Domains<'_> {
        Domains(&self.db)
    }

    /// The DKIM keys.
    #[must_use]
    pub const fn dkim_keys(&self) -> DkimKeys<'_> {
        DkimKeys(&self.db)
    }

    /// The name servers that take changes of domains' records.
    #[must_use]
    pub const fn dns_providers(&self) -> DnsProviders<'_> {
        DnsProviders(&self.db)
    }

    /// The changes of domains' records.
    #[must_use]
    pub const fn dns_changes(&self) -> DnsChanges<'_> {
        DnsChanges(&self.db)
    }

    /// The accounts.
    #[must_use]
    pub const fn accounts(&self) -> Accounts<'_> {
        Accounts(&self.db)
    }

    /// The rules of mailboxes.
    #[must_use]
    pub const fn rules(&self) -> Rules<'_> {
        Rules(&self.db)
    }

    /// The greylist.
    #[must_use]
    pub const fn greylist(&self) -> Greylist<'_> {
        Greylist(&self.db)
    }

    /// The data directory that has the mail of the accounts.
    #[must_use]
    pub const fn mail_owners(&self) -> MailOwners<'_> {
        MailOwners(&self.db)
    }

    /// The aliases.
    #[must_use]
    pub const fn aliases(&self) -> Aliases<'_> {
        Aliases(&self.db)
    }

    /// The tokens.
    #[must_use]
    pub const fn tokens(&self) -> Tokens<'_> {
        Tokens(&self.db)
    }

    /// The app passwords.
    #[must_use]
    pub const fn app_passwords(&self) -> AppPasswords<'_> {
        AppPasswords(&self.db)
    }

    /// The permissions.
    #[must_use]
    pub const fn permissions(&self) -> Permissions<'_> {
        Permissions(&self.db)
    }

    /// The sent messages.
    #[must_use]
    pub const fn sent(&self) -> Sent<'_> {
        Sent(&self.db)
    }

    /// The delivery log.
    #[must_use]
    pub const fn delivery_log(&self) -> DeliveryLog<'_> {
        DeliveryLog(&self.db)
    }

    /// The log of events.
    #[must_use]
    pub const fn events(&self) -> Events<'_> {
        Events(&self.db)
    }

    /// The secrets that all nodes share.
    #[must_use]
    pub const fn secrets(&self) -> Secrets<'_> {
        Secrets(&self.db)
    }

    /// Received mail whose events are not complete.
    #[must_use]
    pub const fn waiting_mails(&self) -> WaitingMails<'_> {
        WaitingMails(&self.db)
    }

    /// The webhooks.
    #[must_use]
    pub const fn webhooks(&self) -> Webhooks<'_> {
        Webhooks(&self.db)
    }

    /// The statistics.
    #[must_use]
    pub const fn stats(&self) -> Stats<'_> {
        Stats(&self.db)
    }
}
