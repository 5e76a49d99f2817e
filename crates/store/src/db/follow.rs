//! Account and domain changes that are applied to mailboxes in the same SQLite file.

use mailapi_model::{DomainName, EmailAddress, MailboxOptions};
use rusqlite::{Connection, OptionalExtension, params};

use super::{BatchLock, Db, Effect, Stmt, sqlite};
use crate::sqlite::Followed;
use crate::{StoreError, aliases, rules};

/// A change in a batch that affects mailboxes.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// An account that the batch adds.
    NewAccount(EmailAddress),
    /// An existing account.
    Account(EmailAddress),
    /// An alias.
    Alias(EmailAddress),
    /// The rules of an existing account.
    Rules(EmailAddress),
    /// A domain without its accounts and aliases.
    Domain(DomainName),
    /// A domain with all its accounts and aliases.
    WholeDomain(DomainName),
}

impl Changed {
    /// Expands [`Changed::WholeDomain`] into its accounts and aliases. Must run before the batch, which may delete them.
    fn spelt_out(self, connection: &Connection) -> Result<Vec<Self>, StoreError> {
        let Self::WholeDomain(name) = self else { return Ok(vec![self]) };
        let accounts = addresses(connection, "SELECT email FROM accounts WHERE domain = ?1", &name)?;
        let aliases = addresses(connection, "SELECT address FROM aliases WHERE domain = ?1", &name)?;
        let accounts = accounts.into_iter().map(Self::Account);
        Ok(accounts.chain(aliases.into_iter().map(Self::Alias)).chain([Self::Domain(name)]).collect())
    }

    /// Returns the state after the batch. It is read back, because a statement may not have had its intended
    /// effect.
    fn now(self, connection: &Connection) -> Result<Followed, StoreError> {
        let is_new = matches!(self, Self::NewAccount(_));
        match self {
            Self::NewAccount(email) | Self::Account(email) => Ok(match options(connection, &email)? {
                Some(options) => Followed::Account { email, options, is_new },
                None => Followed::AccountGone(email),
            }),
            Self::Alias(address) => Ok(match aliases::find(connection, &address)? {
                Some(alias) => Followed::Alias(alias),
                None => Followed::AliasGone(address),
            }),
            Self::Rules(email) => {
                let rules = rules::find(connection, &email)?;
                Ok(Followed::Rules(email, rules))
            }
            Self::Domain(name) | Self::WholeDomain(name) => {
                let sql = "SELECT approved FROM domains WHERE name = ?1";
                let approved = connection.prepare_cached(sql)?.query_row(params![name.as_str()], |row| row.get(0));
                let is_here = approved.optional()?.unwrap_or(false);
                Ok(Followed::Domain { name, is_here })
            }
        }
    }
}

/// Returns the addresses that a query finds for a domain.
fn addresses(connection: &Connection, sql: &str, domain: &DomainName) -> Result<Vec<EmailAddress>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![domain.as_str()], |row| row.get::<_, String>(0))?;
    let parsed = |text: rusqlite::Result<String>| {
        text?.parse().map_err(|_| StoreError::unexpected("a domain has an invalid address"))
    };
    found.map(parsed).collect()
}

/// Returns the options of the mailbox of an account, if it exists.
fn options(connection: &Connection, email: &EmailAddress) -> Result<Option<MailboxOptions>, StoreError> {
    let sql = "SELECT quota_bytes, save_sent FROM accounts WHERE email = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, String>(1)?));
    let found = statement.query_row(params![email.as_str()], read).optional()?;
    let options = |(quota, save_sent): (Option<i64>, String)| {
        let quota_bytes = quota.and_then(|bytes| u64::try_from(bytes).ok());
        let save_sent = save_sent.parse().map_err(|_| StoreError::unexpected("an account has an invalid option"))?;
        Ok(MailboxOptions { quota_bytes, save_sent })
    };
    found.map(options).transpose()
}

impl Db {
    /// Runs the statements as [`Db::batch`] does. Mailboxes in the same file change in the same transaction.
    pub(crate) async fn batch_followed(
        &self,
        changed: Changed,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        self.batch_all_followed(vec![changed], statements).await
    }

    /// Like [`Db::batch_followed`], serialised with all other batches of this lock.
    pub(crate) async fn batch_followed_with_lock(
        &self,
        lock: BatchLock,
        changed: Changed,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        self.batch_all_followed_with_lock(lock, vec![changed], statements).await
    }

    /// Like [`Db::batch_followed_with_lock`], for several changes.
    pub(crate) async fn batch_all_followed_with_lock(
        &self,
        lock: BatchLock,
        changed: Vec<Changed>,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        match self {
            Self::Sqlite(_) => self.batch_all_followed(changed, statements).await,
            Self::Postgres(_) => self.batch_with_lock(lock, statements).await,
        }
    }

    /// Like [`Db::batch_followed`], for several changes.
    pub(crate) async fn batch_all_followed(
        &self,
        changed: Vec<Changed>,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        let Self::Sqlite(engine) = self else { return self.batch(statements).await };
        let Some(follower) = engine.follower() else { return self.batch(statements).await };
        let uses_reserve = statements.iter().any(Stmt::uses_reserve);
        let job = move |connection: &Connection| {
            // Expand before the batch, which may delete the accounts.
            let mut spelt_out = Vec::new();
            for one in changed.clone() {
                spelt_out.extend(one.spelt_out(connection)?);
            }
            let effects = sqlite::batch(connection, &statements)?;
            let now: Vec<_> = spelt_out.into_iter().map(|one| one.now(connection)).collect::<Result<_, _>>()?;
            // In the same transaction, so that accounts and mailboxes cannot diverge.
            Ok::<_, StoreError>((effects, follower.follow(connection, &now)?))
        };
        // The follower's value must be dropped only after the commit.
        let (effects, _word) = if uses_reserve { engine.write_freeing(job).await? } else { engine.write(job).await? };
        Ok(effects)
    }
}
