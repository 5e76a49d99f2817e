//! Account and domain changes that are applied to mailboxes in the same SQLite file.

use mailapi_model::{DomainName, EmailAddress};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Db, Effect, Stmt, sqlite};
use crate::StoreError;
use crate::sqlite::Followed;

/// A change in a batch that affects mailboxes.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// An account that the batch adds.
    NewAccount(EmailAddress),
    /// An existing account.
    Account(EmailAddress),
    /// A domain without its accounts.
    Domain(DomainName),
    /// A domain with all its accounts.
    WholeDomain(DomainName),
}

impl Changed {
    /// Expands [`Changed::WholeDomain`] into its accounts. Must run before the batch, which may delete them.
    fn spelt_out(self, connection: &Connection) -> Result<Vec<Self>, StoreError> {
        let Self::WholeDomain(name) = self else { return Ok(vec![self]) };
        let mut statement = connection.prepare_cached("SELECT email FROM accounts WHERE domain = ?1")?;
        let emails = statement.query_map(params![name.as_str()], |row| row.get::<_, String>(0))?;
        let account = |email: rusqlite::Result<String>| {
            let address = email?.parse().map_err(|_| StoreError::unexpected("an account has an invalid address"))?;
            Ok(Self::Account(address))
        };
        let mut spelt_out: Vec<Self> = emails.map(account).collect::<Result<_, StoreError>>()?;
        spelt_out.push(Self::Domain(name));
        Ok(spelt_out)
    }

    /// Returns the state after the batch. It is read back, because a statement may not have had its intended
    /// effect.
    fn now(self, connection: &Connection) -> Result<Followed, StoreError> {
        let is_new = matches!(self, Self::NewAccount(_));
        match self {
            Self::NewAccount(email) | Self::Account(email) => Ok(match quota(connection, &email)? {
                Some(quota_bytes) => Followed::Account { email, quota_bytes, is_new },
                None => Followed::AccountGone(email),
            }),
            Self::Domain(name) | Self::WholeDomain(name) => {
                let sql = "SELECT approved FROM domains WHERE name = ?1";
                let approved = connection.prepare_cached(sql)?.query_row(params![name.as_str()], |row| row.get(0));
                let is_here = approved.optional()?.unwrap_or(false);
                Ok(Followed::Domain { name, is_here })
            }
        }
    }
}

/// Returns the quota of an account; the outer `None` means that there is no such account.
fn quota(connection: &Connection, email: &EmailAddress) -> Result<Option<Option<u64>>, StoreError> {
    let sql = "SELECT quota_bytes FROM accounts WHERE email = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let quota = statement.query_row(params![email.as_str()], |row| row.get::<_, Option<i64>>(0)).optional()?;
    Ok(quota.map(|quota| quota.and_then(|bytes| u64::try_from(bytes).ok())))
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

    /// Like [`Db::batch_followed`], for several changes.
    pub(crate) async fn batch_all_followed(
        &self,
        changed: Vec<Changed>,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        let Self::Sqlite(engine) = self else { return self.batch(statements).await };
        let Some(follower) = engine.follower() else { return self.batch(statements).await };
        let written = engine.write(move |connection| {
            // Expand before the batch, which may delete the accounts.
            let mut spelt_out = Vec::new();
            for one in changed {
                spelt_out.extend(one.spelt_out(connection)?);
            }
            let effects = sqlite::batch(connection, &statements)?;
            let now: Vec<_> = spelt_out.into_iter().map(|one| one.now(connection)).collect::<Result<_, _>>()?;
            // In the same transaction, so that accounts and mailboxes cannot diverge.
            Ok::<_, StoreError>((effects, follower.follow(connection, &now)?))
        });
        // The follower's value must be dropped only after the commit.
        let (effects, _word) = written.await?;
        Ok(effects)
    }
}
