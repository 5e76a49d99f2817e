//! API tokens and session tokens.

use std::borrow::Cow;

use mailapi_events::{EventType, token_created, token_event};
use mailapi_model::{EmailAddress, Listed, NewToken, Page, StoredToken, Timestamp, TokenHash, TokenId, TokenRecord};

use crate::StoreError;
use crate::accounts::{Verified, hold_account, hold_account_alone, note_login};
use crate::db::{BatchLock, Db, Effect, Filter, List, Row, Stmt, exactly_one, first_guard_held, number};
use crate::events::Log;

/// The tokens.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a>(pub(crate) &'a Db);

/// Which tokens to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// Only tokens of this mailbox.
    pub email: Option<EmailAddress>,
}

/// Changes to a token; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenChange {
    /// A new name.
    pub name: Option<String>,
    /// Whether the token is enabled.
    pub is_active: Option<bool>,
    /// A new expiry; the inner `None` removes it.
    pub expires_at: Option<Option<Timestamp>>,
}

/// Result of adding a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The session's token.
    pub record: TokenRecord,
    /// Whether older sessions of the mailbox were ended to make room.
    pub others_ended: bool,
}

const COLUMNS: &str = "id, prefix, kind, email, email_given, name, is_active, is_session, created_at, last_used_at, \
                       expires_at";

pub(crate) const TOKENS: List =
    List { table: "tokens", key: "id", order: "created_at DESC, id DESC", columns: COLUMNS };

/// Condition for a usable API token of an admin; `now` is the parameter with the time.
fn admin_that_works(now: &str) -> String {
    format!(
        "kind = 'admin' AND is_session = FALSE AND is_removed = FALSE AND is_active \
         AND (expires_at IS NULL OR expires_at > {now})"
    )
}

/// Condition that token `$1` is not the last one that matches [`admin_that_works`].
fn not_the_last_admin(now: &str) -> String {
    let works = admin_that_works(now);
    format!("(NOT ({works}) OR EXISTS (SELECT 1 FROM tokens AS others WHERE others.id <> $1 AND {works}))")
}

impl Tokens<'_> {
    /// Adds a token and assigns its id.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a token has this value, [`StoreError::Reference`] when its mailbox does
    /// not exist, [`StoreError::Guard`] when the mailbox has `most` usable tokens.
    pub async fn insert(&self, token: &NewToken, most: u32) -> Result<TokenRecord, StoreError> {
        let mut statements = Vec::new();
        if let Some(email) = &token.email {
            // With a shared lock, concurrent inserts would all count the same number.
            statements.extend([hold_account_alone(email), room_for_one(email, token.created_at, most)]);
        }
        statements.push(insert_token(token));
        let through_token = statements.len();
        if !token.is_session {
            let (event, rest) = token_created(token);
            let of_value = "SELECT id FROM tokens WHERE hash = $9";
            statements.push(Log::of(self.0).insert_with_id(&event, of_value, &token.hash.as_bytes()[..], &rest));
        }
        let mut effects = self.0.batch(statements).await?;
        effects.truncate(through_token);
        let id = inserted(effects)?.ok_or(StoreError::Reference)?;
        Ok(new_record(token, id))
    }

    /// Adds a session and records its login. Returns `None` and changes nothing if the verified password is
    /// no longer current, or the mailbox may not log in. The oldest sessions end, so that `most` remain.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a token has this value.
    pub async fn insert_session(
        &self,
        session: &NewToken,
        of: &EmailAddress,
        verified: Verified<'_>,
        most: u32,
    ) -> Result<Option<NewSession>, StoreError> {
        // Updating the account first locks it, so that concurrent logins count each other's sessions.
        let note = note_login(of, verified, session.created_at).demand(1);
        let statements = vec![note, end_oldest_sessions(of, most), insert_token(session)];
        match self.0.batch(statements).await {
            Err(StoreError::Guard { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(effects) => {
                let others_ended = effects.get(1).is_some_and(|ended| ended.touched > 0);
                Ok(inserted(effects)?.map(|id| NewSession { record: new_record(session, id), others_ended }))
            }
        }
    }

    /// Ends a token and adds its replacement, in one transaction. Returns `None` and changes nothing if the
    /// old token has already ended.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn replace(&self, old: TokenId, new: &NewToken) -> Result<Option<TokenRecord>, StoreError> {
        let end = "UPDATE tokens SET is_active = FALSE WHERE id = $1 AND is_active AND is_removed = FALSE";
        // Lock the account first: a concurrent end of all sessions runs either before this, or sees the new
        // token too.
        let mut statements = hold_owner(new);
        statements.extend([Stmt::new(end).bind(old).demand(1), insert_token(new)]);
        self.insert_guarded(statements, new).await
    }

    /// Runs a batch that ends with [`insert_token`]; returns `None`, with nothing changed, if one of its
    /// guards fails.
    async fn insert_guarded(&self, statements: Vec<Stmt>, new: &NewToken) -> Result<Option<TokenRecord>, StoreError> {
        match self.0.batch(statements).await {
            Err(StoreError::Guard { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(effects) => Ok(inserted(effects)?.map(|id| new_record(new, id))),
        }
    }

    /// Ends a session that expired by `now` or was last used before `idle_since`; returns whether this call
    /// ended it.
    ///
    /// It stays ended even if the clock is set back. API tokens are not changed: their expiry may be
    /// extended.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn end_session(&self, id: TokenId, now: Timestamp, idle_since: Timestamp) -> Result<bool, StoreError> {
        // Check again in the database: another node may have recorded a later use.
        let sql = "UPDATE tokens SET is_active = FALSE WHERE id = $1 AND is_session AND is_active \
                   AND (expires_at <= $2 OR COALESCE(last_used_at, created_at) < $3)";
        Ok(self.0.execute(Stmt::new(sql).bind(id).bind(now).bind(idle_since)).await?.touched > 0)
    }

    /// Ends at most `limit` sessions that expired by `now`; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn end_sessions_until(&self, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        let sql = "UPDATE tokens SET is_active = FALSE WHERE id IN (SELECT id FROM tokens \
                   WHERE is_session AND expires_at <= $1 AND is_active ORDER BY expires_at LIMIT $2)";
        Ok(self.0.execute(Stmt::new(sql).bind(now).bind(number(limit))).await?.touched)
    }

    /// Deletes at most `limit` sessions that expired before `moment`; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn forget_sessions(&self, moment: Timestamp, limit: u64) -> Result<u64, StoreError> {
        let sql = "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE is_session AND expires_at < $1 \
                   ORDER BY expires_at LIMIT $2)";
        Ok(self.0.execute(Stmt::new(sql).bind(moment).bind(number(limit))).await?.touched)
    }

    /// Returns the token whose value has this hash, even if it is no longer usable.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn by_hash(&self, hash: &TokenHash) -> Result<Option<StoredToken>, StoreError> {
        let sql = "SELECT id, prefix, kind, tokens.email, tokens.email_given, tokens.name, is_active, is_session, \
                   tokens.created_at, last_used_at, expires_at, \
                   CASE WHEN tokens.email IS NULL THEN TRUE ELSE COALESCE(accounts.active, FALSE) END \
                   FROM tokens LEFT JOIN accounts ON accounts.email = tokens.email WHERE hash = $1";
        let row = self.0.first(Stmt::new(sql).bind(&hash.as_bytes()[..])).await?;
        row.map(read_stored).transpose()
    }

    /// Returns the token with this id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE id = $1 AND is_removed = FALSE");
        self.0.first(Stmt::new(sql).bind(id)).await?.map(|mut row| read_token(&mut row)).transpose()
    }

    /// Returns a page of the API tokens, newest first, without those of deleted accounts.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &TokenFilter, page: Page) -> Result<Listed<TokenRecord>, StoreError> {
        TOKENS.page(self.0, conditions(filter), page, |mut row| read_token(&mut row)).await
    }

    /// Returns a page of the sessions of a mailbox that have not expired at `now` and were used since `idle_since`,
    /// newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sessions(
        &self,
        of: &EmailAddress,
        now: Timestamp,
        idle_since: Timestamp,
        page: Page,
    ) -> Result<Listed<TokenRecord>, StoreError> {
        TOKENS.page(self.0, sessions_of(of, now, idle_since), page, |mut row| read_token(&mut row)).await
    }

    /// Ends a session of a mailbox; returns whether it was open.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn end_session_of(&self, email: &EmailAddress, id: TokenId) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET is_active = FALSE WHERE id = $1 AND email = $2 AND is_session AND is_active";
        Ok(self.0.execute(Stmt::new(sql).bind(id).bind(email).urgent()).await?.touched > 0)
    }

    /// Changes a token; returns whether it exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update(&self, id: TokenId, change: &TokenChange, now: Timestamp) -> Result<bool, StoreError> {
        let update = update_token(UPDATE, id, change).demand(1);
        first_guard_held(self.0.batch(vec![update, self.event(EventType::TokenUpdated, id, now)]).await)
    }

    /// Changes a token, unless it is the last usable API token of an admin at `now`.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update_but_last_admin(
        &self,
        id: TokenId,
        change: &TokenChange,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = format!("{UPDATE} AND {}", not_the_last_admin("$6"));
        let update = update_token(sql, id, change).bind(now).demand(1);
        let statements = vec![update, self.event(EventType::TokenUpdated, id, now)];
        first_guard_held(self.0.batch_with_lock(BatchLock::AdminTokens, statements).await)
    }

    /// Revokes a token permanently, whether enabled or not; returns whether this call revoked it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn revoke(&self, id: TokenId, now: Timestamp) -> Result<bool, StoreError> {
        let revoke = Stmt::new(REVOKE).bind(id).demand(1).urgent();
        first_guard_held(self.0.batch(vec![revoke, self.event(EventType::TokenRevoked, id, now)]).await)
    }

    /// Revokes a token, unless it is the last usable API token of an admin at `now`.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn revoke_but_last_admin(&self, id: TokenId, now: Timestamp) -> Result<bool, StoreError> {
        let sql = format!("{REVOKE} AND {}", not_the_last_admin("$2"));
        let revoke = Stmt::new(sql).bind(id).bind(now).demand(1).urgent();
        let statements = vec![revoke, self.event(EventType::TokenRevoked, id, now)];
        first_guard_held(self.0.batch_with_lock(BatchLock::AdminTokens, statements).await)
    }

    fn event(&self, event_type: EventType, id: TokenId, now: Timestamp) -> Stmt {
        // A session is not an API token: its end has no event.
        let is_api_token = "SELECT 1 FROM tokens WHERE id = $9 AND NOT is_session";
        Log::of(self.0).insert_if_found(&token_event(event_type, id, now, self.0.next_fact()), is_api_token, id)
    }

    /// Records when tokens were last used. An earlier time never replaces a later one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn touch_many(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
        // Update rows in a fixed order, so that two nodes cannot deadlock.
        let mut uses = uses.to_vec();
        uses.sort_unstable();
        self.0.batch(uses.into_iter().map(|(id, at)| Stmt::new(sql).bind(id).bind(at)).collect()).await.map(drop)
    }

    /// Returns whether an API token of an admin was ever created, whatever its state.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn has_had_admin(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM tokens WHERE kind = 'admin' AND is_session = FALSE LIMIT 1";
        Ok(self.0.first(Stmt::new(sql)).await?.is_some())
    }

    /// Returns the number of usable API tokens of admins at `now`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_active_admin(&self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = format!("SELECT COUNT(*) FROM tokens WHERE {}", admin_that_works("$1"));
        exactly_one(self.0.query(Stmt::new(sql).bind(now)).await?)?.unsigned()
    }
}

const REVOKE: &str = "UPDATE tokens SET is_active = FALSE, is_revoked = TRUE WHERE id = $1 AND is_revoked = FALSE";

const UPDATE: &str = "UPDATE tokens SET name = COALESCE(CAST($2 AS TEXT), name), \
    is_active = COALESCE(CAST($3 AS BOOLEAN), is_active), \
    expires_at = CASE WHEN $4 THEN CAST($5 AS BIGINT) ELSE expires_at END \
    WHERE id = $1 AND is_removed = FALSE AND (is_revoked = FALSE OR CAST($3 AS BOOLEAN) IS NOT TRUE)";

fn update_token(sql: impl Into<Cow<'static, str>>, id: TokenId, change: &TokenChange) -> Stmt {
    Stmt::new(sql)
        .bind(id)
        .bind(change.name.clone())
        .bind(change.is_active)
        .bind(change.expires_at.is_some())
        .bind(change.expires_at.flatten())
}

/// Adds a token, unless its mailbox does not exist.
///
/// A foreign key cannot enforce this, because tokens of deleted accounts are kept. On PostgreSQL the account
/// must be locked before.
pub(crate) fn insert_token(token: &NewToken) -> Stmt {
    Stmt::new(
        "INSERT INTO tokens (hash, prefix, kind, email, email_given, name, is_active, is_session, is_removed, \
         is_revoked, created_at, expires_at) \
         SELECT $1, CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), TRUE, \
         CAST($7 AS BOOLEAN), FALSE, FALSE, CAST($8 AS BIGINT), CAST($9 AS BIGINT) \
         WHERE CAST($4 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM accounts WHERE email = $4) RETURNING id",
    )
    .bind(&token.hash.as_bytes()[..])
    .bind(token.prefix.as_str())
    .bind(token.kind)
    .bind(token.email.as_ref())
    .bind(token.email.as_ref().and_then(EmailAddress::given))
    .bind(token.name.as_str())
    .bind(token.is_session)
    .bind(token.created_at)
    .bind(token.expires_at)
}

/// Fails the batch if the mailbox has `most` API tokens that are usable, now or after being enabled again.
fn room_for_one(email: &EmailAddress, now: Timestamp, most: u32) -> Stmt {
    let sql = "SELECT 1 WHERE (SELECT COUNT(*) FROM tokens WHERE email = $1 AND is_session = FALSE \
               AND is_removed = FALSE AND is_revoked = FALSE AND (expires_at IS NULL OR expires_at > $2)) < $3";
    Stmt::new(sql).bind(email).bind(now).bind(i64::from(most)).demand(1)
}

/// Ends the least recently used sessions of a mailbox, so that one more makes `most`.
fn end_oldest_sessions(email: &EmailAddress, most: u32) -> Stmt {
    let sql = "UPDATE tokens SET is_active = FALSE WHERE is_session AND is_active AND email = $1 AND id NOT IN \
               (SELECT id FROM tokens WHERE is_session AND is_active AND email = $1 \
               ORDER BY COALESCE(last_used_at, created_at) DESC, id DESC LIMIT $2)";
    Stmt::new(sql).bind(email).bind(i64::from(most.saturating_sub(1)))
}

/// Locks the mailbox that a token belongs to, if any, until the end of the batch.
fn hold_owner(token: &NewToken) -> Vec<Stmt> {
    token.email.as_ref().map(hold_account).into_iter().collect()
}

/// Returns the id of the token that the last statement of a batch added, if any.
fn inserted(mut effects: Vec<Effect>) -> Result<Option<TokenId>, StoreError> {
    let rows = effects.pop().map(|effect| effect.rows).unwrap_or_default();
    rows.into_iter().next().map(|mut row| Ok(TokenId(row.int()?))).transpose()
}

/// Returns the record of a token that was just stored.
pub(crate) fn new_record(token: &NewToken, id: TokenId) -> TokenRecord {
    TokenRecord {
        id,
        prefix: token.prefix.clone(),
        kind: token.kind,
        email: token.email.clone(),
        name: token.name.clone(),
        is_active: true,
        is_session: token.is_session,
        created_at: token.created_at,
        last_used_at: None,
        expires_at: token.expires_at,
    }
}

/// Ends all sessions of a mailbox except `kept`.
pub(crate) fn end_other_sessions(email: &EmailAddress, kept: Option<TokenId>) -> Stmt {
    let sql = "UPDATE tokens SET is_active = FALSE WHERE email = $1 AND is_removed = FALSE AND is_session \
               AND is_active AND (CAST($2 AS BIGINT) IS NULL OR id <> $2)";
    Stmt::new(sql).bind(email).bind(kept)
}

pub(crate) fn end_sessions(email: &EmailAddress) -> Stmt {
    let sql = "UPDATE tokens SET is_active = FALSE \
               WHERE email = $1 AND is_removed = FALSE AND is_session AND is_active";
    Stmt::new(sql).bind(email)
}

/// Ends the tokens of deleted accounts. Their hashes stay: a client that uses one learns that it has ended,
/// and a new account with the same address does not revive it.
pub(crate) fn remove_tokens(whose: &str) -> Stmt {
    Stmt::new(format!("UPDATE tokens SET is_active = FALSE, is_removed = TRUE, name = '' WHERE {whose}"))
}

pub(crate) fn conditions(filter: &TokenFilter) -> Filter {
    Filter::all().only("is_removed = FALSE").only("is_session = FALSE").when("email = ?", filter.email.as_ref())
}

/// Open sessions of a mailbox. No index has all columns, but a mailbox has few sessions.
fn sessions_of(email: &EmailAddress, now: Timestamp, idle_since: Timestamp) -> Filter {
    Filter::all()
        .only("is_removed = FALSE")
        .only("is_session = TRUE")
        .only("is_active")
        .when("email = ?", Some(email))
        .when("(expires_at IS NULL OR expires_at > ?)", Some(now))
        .when("COALESCE(last_used_at, created_at) >= ?", Some(idle_since))
}

fn read_token(row: &mut Row) -> Result<TokenRecord, StoreError> {
    Ok(TokenRecord {
        id: TokenId(row.int()?),
        prefix: row.text()?,
        kind: row.parsed()?,
        email: row.address_or_null()?,
        name: row.text()?,
        is_active: row.bool()?,
        is_session: row.bool()?,
        created_at: row.time()?,
        last_used_at: row.time_or_null()?,
        expires_at: row.time_or_null()?,
    })
}

fn read_stored(mut row: Row) -> Result<StoredToken, StoreError> {
    Ok(StoredToken { record: read_token(&mut row)?, owner_active: row.bool()? })
}
