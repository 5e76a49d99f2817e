//! Accounts.

use mailapi_events::{EventType, user_created, user_event, user_updated};
use mailapi_model::{
    Account, AccountChange, Credentials, DomainName, EmailAddress, Listed, MailboxOptions, NewAccount, Page,
};
use mailapi_model::{SecretText, Timestamp, TokenId};

use crate::StoreError;
use crate::db::{Changed, Db, Effect, Filter, List, Row, Stmt, Value, first_guard_held, number};
use crate::events::Log;
use crate::former_names::note_gone;
use crate::tokens::{end_other_sessions, end_sessions, remove_tokens};

/// The accounts.
#[derive(Debug, Clone, Copy)]
pub struct Accounts<'a>(pub(crate) &'a Db);

/// Which accounts to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountFilter {
    /// Only accounts of these domains; `None` means all.
    pub domains: Option<Vec<DomainName>>,
    /// Only active accounts, or only inactive ones.
    pub active: Option<bool>,
    /// Only accounts whose address or name contains this text, ignoring case.
    pub q: Option<String>,
    /// Accounts to leave out.
    pub hide: Vec<EmailAddress>,
}

/// What the password of a login was verified against.
///
/// Verifying takes time, so the password may change meanwhile. Writes that follow from the login are
/// conditional on this.
#[derive(Debug, Clone, Copy)]
pub enum Verified<'a> {
    /// The account's own password hash.
    Hash(&'a SecretText),
    /// A hash in an external user database, of which the account is a copy.
    Elsewhere,
}

const COLUMNS: &str = "email, email_given, name, active, quota_bytes, created_at, updated_at, last_login_at";

pub(crate) const ACCOUNTS: List =
    List { table: "accounts", key: "email", order: "created_at DESC, email DESC", columns: COLUMNS };

impl Accounts<'_> {
    /// Adds an active account. It is closed if the address was deleted before; see [`Accounts::set_closed`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the account exists, [`StoreError::Reference`] when its domain does not.
    pub async fn insert(&self, account: &NewAccount) -> Result<(), StoreError> {
        let changed = Changed::NewAccount(account.email.clone());
        let event = Log::of(self.0).insert(&user_created(account, self.0.next_fact()));
        self.0.batch_followed(changed, vec![insert_account(account), event]).await.map(drop)
    }

    /// Returns the account with this address.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, email: &EmailAddress) -> Result<Option<Account>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE email = $1");
        self.0.first(Stmt::new(sql).bind(email)).await?.map(read_account).transpose()
    }

    /// Returns a page of the accounts, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &AccountFilter, page: Page) -> Result<Listed<Account>, StoreError> {
        ACCOUNTS.page(self.0, conditions(filter), page, read_account).await
    }

    /// Returns at most `limit` addresses after `after`, in alphabetical order, with the options of their mailboxes.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn all_options(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Vec<(EmailAddress, MailboxOptions)>, StoreError> {
        let sql =
            "SELECT email, email_given, quota_bytes, save_sent FROM accounts WHERE email > $1 ORDER BY email LIMIT $2";
        let statement = Stmt::new(sql).bind(after.map_or("", EmailAddress::as_str)).bind(crate::db::count(limit));
        let read = |mut row: Row<'_>| Ok((row.address()?, read_options(&mut row)?));
        self.0.query(statement).await?.into_iter().map(read).collect()
    }

    /// Returns the options of the mailbox of this account.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn options(&self, email: &EmailAddress) -> Result<Option<MailboxOptions>, StoreError> {
        let sql = "SELECT quota_bytes, save_sent FROM accounts WHERE email = $1";
        let row = self.0.first(Stmt::new(sql).bind(email)).await?;
        row.map(|mut row| read_options(&mut row)).transpose()
    }

    /// Returns the credentials that a login at this address is checked against.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn credentials(&self, email: &EmailAddress) -> Result<Option<Credentials>, StoreError> {
        let sql = "SELECT email, email_given, name, password_hash, active, sessions_ended FROM accounts \
             WHERE email = $1 AND NOT closed";
        let row = self.0.first(Stmt::new(sql).bind(email)).await?;
        row.map(read_credentials).transpose()
    }

    /// Changes an account; returns whether it exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update(
        &self,
        email: &EmailAddress,
        change: &AccountChange,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let statement = Stmt::new(
            "UPDATE accounts SET name = COALESCE(CAST($2 AS TEXT), name), \
             name_folded = COALESCE(CAST($3 AS TEXT), name_folded), \
             quota_bytes = CASE WHEN $4 THEN CAST($5 AS BIGINT) ELSE quota_bytes END, updated_at = $6, \
             save_sent = COALESCE(CAST($7 AS TEXT), save_sent) WHERE email = $1",
        )
        .bind(email)
        .bind(change.name.clone())
        .bind(change.name.as_deref().map(fold))
        .bind(change.quota_bytes.is_some())
        .bind(change.quota_bytes.flatten().map(number))
        .bind(now)
        .bind(change.save_sent.map(|save_sent| save_sent.as_str().to_owned()));
        let event = Log::of(self.0).insert(&user_updated(email, change, None, now, self.0.next_fact()));
        first_guard_held(self.0.batch_followed(Changed::Account(email.clone()), vec![statement.demand(1), event]).await)
    }

    /// Replaces the password hash and ends every session of the mailbox, in one transaction; returns whether
    /// the account exists.
    ///
    /// An account with its own password is no longer a copy of an external mailbox.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_password_hash(
        &self,
        email: &EmailAddress,
        hash: &SecretText,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE accounts SET password_hash = $2, updated_at = $3, in_directory = FALSE, gone_since = NULL \
                   WHERE email = $1";
        // Lock the account row first: sessions are created under the same lock, so none can be missed.
        let change = Stmt::new(sql).bind(email).bind(hash).bind(now);
        touched_first(&self.0.batch(vec![change, end_sessions(email)]).await?)
    }

    /// Replaces the verified password hash and ends all sessions but `kept`; returns whether the account
    /// still had the verified hash.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn change_password_hash(
        &self,
        email: &EmailAddress,
        verified: &SecretText,
        hash: &SecretText,
        kept: Option<TokenId>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE accounts SET password_hash = $3, updated_at = $4, in_directory = FALSE, gone_since = NULL \
                   WHERE email = $1 AND password_hash = $2";
        // The old hash is the guard: of two concurrent changes, only one succeeds.
        let change = Stmt::new(sql).bind(email).bind(verified).bind(hash).bind(now).demand(1);
        first_guard_held(self.0.batch(vec![change, end_other_sessions(email, kept)]).await)
    }

    /// Replaces the verified hash by another hash of the same password; returns whether the account still had
    /// it. Sessions stay valid.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn replace_password_hash(
        &self,
        email: &EmailAddress,
        verified: &SecretText,
        hash: &SecretText,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE accounts SET password_hash = $3, updated_at = $4 WHERE email = $1 AND password_hash = $2";
        let statement = Stmt::new(sql).bind(email).bind(verified).bind(hash).bind(now);
        Ok(self.0.execute(statement).await?.touched > 0)
    }

    /// Enables an account, or disables it and ends its sessions in one transaction; returns whether it
    /// exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_active(&self, email: &EmailAddress, active: bool, now: Timestamp) -> Result<bool, StoreError> {
        // Listeners compare this counter, so a login from before stays invalid if the account is enabled
        // again.
        let ended = if active { "sessions_ended" } else { "sessions_ended + 1" };
        let sql =
            format!("UPDATE accounts SET active = $2, updated_at = $3, sessions_ended = {ended} WHERE email = $1");
        let mut statements = vec![Stmt::new(sql).bind(email).bind(active).bind(now)];
        statements.extend((!active).then(|| end_sessions(email).urgent()));
        let event = user_updated(email, &AccountChange::default(), Some(active), now, self.0.next_fact());
        let is_there = "SELECT 1 FROM accounts WHERE email = $9";
        statements.push(Log::of(self.0).insert_if_found(&event, is_there, email));
        touched_first(&self.0.batch(statements).await?)
    }

    /// Closes or opens an account; returns whether it exists.
    ///
    /// A closed account cannot log in and receives no mail through mail servers that look accounts up in this
    /// database: its mailbox may hold the mail of a previous owner.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_closed(&self, email: &EmailAddress, closed: bool) -> Result<bool, StoreError> {
        let statement = Stmt::new("UPDATE accounts SET closed = $2 WHERE email = $1").bind(email).bind(closed);
        Ok(self.0.execute(statement).await?.touched > 0)
    }

    /// Returns whether the account is closed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn is_closed(&self, email: &EmailAddress) -> Result<bool, StoreError> {
        let statement = Stmt::new("SELECT 1 FROM accounts WHERE email = $1 AND closed").bind(email);
        Ok(self.0.first(statement).await?.is_some())
    }

    /// Returns at most `limit` closed accounts after `after`, in alphabetical order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn closed(&self, after: Option<&EmailAddress>, limit: usize) -> Result<Vec<EmailAddress>, StoreError> {
        let sql = "SELECT email, email_given FROM accounts WHERE closed AND email > $1 ORDER BY email LIMIT $2";
        let statement = Stmt::new(sql).bind(after.map_or("", EmailAddress::as_str)).bind(crate::db::count(limit));
        self.0.query(statement).await?.into_iter().map(|mut row| row.address()).collect()
    }

    /// Records a login; returns whether the account is active and the verified credential is still current.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn note_login(
        &self,
        email: &EmailAddress,
        verified: Verified<'_>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(self.0.execute(note_login(email, verified, at)).await?.touched > 0)
    }

    /// Deletes an account with its permissions and ends its tokens; returns whether it existed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, email: &EmailAddress, now: Timestamp) -> Result<bool, StoreError> {
        // Lock the account row first: tokens are created under the same lock, so none can be missed.
        // Permissions are deleted by their foreign key.
        let account = Stmt::new("DELETE FROM accounts WHERE email = $1").bind(email).demand(1);
        let tokens = remove_tokens("email = $1").bind(email);
        let gone = note_gone(email, now);
        let event = Log::of(self.0).insert(&user_event(EventType::UserDeleted, email, now, self.0.next_fact()));
        first_guard_held(
            self.0.batch_followed(Changed::Account(email.clone()), vec![account, tokens, gone, event]).await,
        )
    }
}

/// Returns whether the first statement of a batch touched a row.
fn touched_first(effects: &[Effect]) -> Result<bool, StoreError> {
    let first = effects.first().ok_or_else(|| StoreError::unexpected("a batch returned no result"))?;
    Ok(first.touched > 0)
}

/// Updates the account only while the verified credential is current. The row stays locked until the end of
/// the batch.
pub(crate) fn note_login(email: &EmailAddress, verified: Verified<'_>, at: Timestamp) -> Stmt {
    let note = "UPDATE accounts SET last_login_at = $2 WHERE email = $1 AND active";
    let note = match verified {
        Verified::Hash(hash) => Stmt::new(format!("{note} AND password_hash = $3")).bind(email).bind(at).bind(hash),
        Verified::Elsewhere => Stmt::new(format!("{note} AND in_directory")).bind(email).bind(at),
    };
    note.urgent()
}

/// Locks the account against changes until the end of the batch; others may share the lock.
pub(crate) fn hold_account(email: &EmailAddress) -> Stmt {
    Stmt::new("SELECT 1 FROM accounts WHERE email = $1 FOR SHARE").bind(email).locking()
}

/// Like [`hold_account`], but exclusively.
pub(crate) fn hold_account_alone(email: &EmailAddress) -> Stmt {
    Stmt::new("SELECT 1 FROM accounts WHERE email = $1 FOR UPDATE").bind(email).locking()
}

pub(crate) fn insert_account(account: &NewAccount) -> Stmt {
    Stmt::new(
        "INSERT INTO accounts (email, email_given, domain, name, name_folded, password_hash, active, quota_bytes, \
         created_at, updated_at, closed) VALUES ($1, $2, $3, $4, $5, $6, TRUE, $7, $8, $8, \
         EXISTS (SELECT 1 FROM former_names WHERE name = $1))",
    )
    .bind(&account.email)
    .bind(account.email.given())
    .bind(account.email.domain_str())
    .bind(account.name.as_str())
    .bind(fold(&account.name))
    .bind(&account.password_hash)
    .bind(account.quota_bytes.map(number))
    .bind(account.created_at)
}

pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase()
}

pub(crate) fn conditions(filter: &AccountFilter) -> Filter {
    let domains = filter.domains.as_ref().map(|names| names.iter().map(Value::from).collect());
    Filter::all()
        .one_of("domain", domains)
        .when("active = ?", filter.active)
        .when("(email LIKE ? ESCAPE '\\' OR name_folded LIKE ? ESCAPE '\\')", filter.q.as_deref().map(containing))
        .none_of("email", filter.hide.iter().map(Value::from).collect())
}

/// Returns a LIKE pattern that matches texts containing `text`, with wildcards escaped.
pub(crate) fn containing(text: &str) -> String {
    let literal = fold(text).replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{literal}%")
}

fn read_account(mut row: Row) -> Result<Account, StoreError> {
    Ok(Account {
        email: row.address()?,
        name: row.text()?,
        active: row.bool()?,
        quota_bytes: read_quota(&mut row)?,
        created_at: row.time()?,
        updated_at: row.time()?,
        last_login_at: row.time_or_null()?,
    })
}

fn read_options(row: &mut Row<'_>) -> Result<MailboxOptions, StoreError> {
    Ok(MailboxOptions { quota_bytes: read_quota(row)?, save_sent: row.parsed()? })
}

fn read_quota(row: &mut Row) -> Result<Option<u64>, StoreError> {
    Ok(row.int_or_null()?.and_then(|bytes| u64::try_from(bytes).ok()))
}

pub(crate) fn read_credentials(mut row: Row) -> Result<Credentials, StoreError> {
    Ok(Credentials {
        email: row.address()?,
        name: row.text()?,
        password_hash: row.secret()?,
        active: row.bool()?,
        sessions_ended: row.int()?,
    })
}
