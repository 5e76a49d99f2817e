//! Authenticates callers by their tokens.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_model::{
    EmailAddress, Grants, StoredToken, Timestamp, TokenHash, TokenId, TokenKind, TokenRecord, TokenValue,
};

use crate::cache::EpochCache;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Callers by the hash of their token's value.
pub(crate) type CallerCache = EpochCache<TokenHash, Caller>;

/// The reason why a token is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    /// The token does not exist.
    #[error("the token does not exist")]
    Unknown,
    /// The token was revoked, disabled or logged out, it expired, or its mailbox is disabled or deleted.
    #[error("the token has expired or is inactive")]
    Expired {
        /// The token.
        token: TokenId,
    },
    /// The token could not be looked up.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(AuthenticateError);

impl Service {
    /// Returns the caller with this token, and records the use of the token.
    ///
    /// # Errors
    /// See [`AuthenticateError`].
    pub async fn authenticate(&self, value: &TokenValue) -> Result<Caller, AuthenticateError> {
        let caller = self.cached(value).await?;
        let is_session = caller.token.as_ref().is_some_and(|token| token.is_session);
        let noted = self.note_use(caller).await;
        // The expiry of an API token can be moved later, so it is not stored as ended.
        if let Err(AuthenticateError::Expired { token }) = &noted
            && is_session
        {
            self.keep_ended(*token).await;
        }
        noted
    }

    /// As [`Service::authenticate`], without a use of the token: a response that stays open must not keep its session
    /// from expiring.
    ///
    /// # Errors
    /// See [`AuthenticateError`].
    pub async fn authenticate_again(&self, value: &TokenValue) -> Result<Caller, AuthenticateError> {
        let caller = self.cached(value).await?;
        let now = self.0.clock.now();
        if let Some(token) = &caller.token
            && (token.expires_at.is_some_and(|end| end <= now) || self.is_idle(token, now).await?)
        {
            return Err(AuthenticateError::Expired { token: token.id });
        }
        Ok(caller)
    }

    /// Whether a session was unused on all nodes for too long.
    async fn is_idle(&self, token: &TokenRecord, now: Timestamp) -> Result<bool, Unavailable> {
        let limit = self.0.settings.session_inactivity;
        let here = self.0.last_used.of(token.id).max(token.last_used_at).unwrap_or(token.created_at);
        if !token.is_session || now.since(here) <= limit {
            return Ok(false);
        }
        let stored = self.0.store.tokens().get(token.id).await?;
        let elsewhere = stored.and_then(|stored| stored.last_used_at);
        Ok(elsewhere.is_none_or(|used| now.since(used) > limit))
    }

    /// The caller with this token, as of the present epoch.
    async fn cached(&self, value: &TokenValue) -> Result<Caller, AuthenticateError> {
        let hash = value.hash();
        // Boxed: inline, it would multiply the size of this future, which every request carries.
        let look_up = async || Box::pin(self.look_up(&hash)).await;
        self.0.callers.get_or_read(&self.0.epoch, &hash, look_up).await
    }

    /// Stores that an expired session ended, so that setting the clock back does not revive it.
    async fn keep_ended(&self, token: TokenId) {
        let now = self.0.clock.now();
        let idle_since = now.minus(self.0.settings.session_inactivity);
        match self.0.store.tokens().end_session(token, now, idle_since).await {
            Ok(true) => self.0.epoch.end(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "could not store the end of a session; retried when the session is used again")
            }
        }
    }

    async fn look_up(&self, hash: &TokenHash) -> Result<Caller, AuthenticateError> {
        let StoredToken { record, owner_active } =
            self.0.store.tokens().by_hash(hash).await?.ok_or(AuthenticateError::Unknown)?;
        if !record.is_active || !owner_active {
            return Err(AuthenticateError::Expired { token: record.id });
        }
        let grants = match &record.email {
            None => Grants::admin_token(),
            Some(mailbox) => self.grants_of(mailbox, record.kind).await?,
        };
        Ok(Caller { token: Some(Arc::new(record)), ..Caller::without_token(grants) })
    }

    /// The grants of a token of this kind for `mailbox`. A user token of an admin's mailbox stays a user token: it
    /// reaches only that mailbox.
    pub(crate) async fn grants_of(&self, mailbox: &EmailAddress, kind: TokenKind) -> Result<Grants, Unavailable> {
        let held = self.0.store.permissions().of(mailbox).await?;
        let delegated = held.into_iter().map(|record| (record.permission, record.domain)).collect();
        let is_admin = kind == TokenKind::Admin && self.0.settings.admins.contains(mailbox);
        Ok(Grants::of_mailbox(mailbox.clone(), is_admin, delegated))
    }

    /// Rejects an expired token, and records its use.
    async fn note_use(&self, mut caller: Caller) -> Result<Caller, AuthenticateError> {
        let now = self.0.clock.now();
        if let Some(token) = &caller.token {
            if token.expires_at.is_some_and(|end| end <= now) {
                return Err(AuthenticateError::Expired { token: token.id });
            }
            let idle_since = self.0.last_used.of(token.id).max(token.last_used_at).unwrap_or(token.created_at);
            // At half the inactivity limit, read uses on other nodes and write this one: early enough for both.
            if token.is_session && now.since(idle_since) > self.0.settings.session_inactivity / 2 {
                Box::pin(self.extend_session(token, idle_since, now)).await?;
            }
            self.0.last_used.note(token.id, now);
            caller.shown_at = Some(now);
        }
        Ok(caller)
    }

    /// Extends a session that was unused on this node for a while, unless it was unused on all nodes for too long.
    ///
    /// Each node writes its uses a few seconds late. Without this write, another node that receives a request in
    /// these seconds would miss the first use after a long pause.
    async fn extend_session(
        &self,
        token: &TokenRecord,
        idle_since: Timestamp,
        now: Timestamp,
    ) -> Result<(), AuthenticateError> {
        let tokens = self.0.store.tokens();
        let elsewhere = tokens.get(token.id).await?.and_then(|stored| stored.last_used_at);
        let idle_since = elsewhere.map_or(idle_since, |used| used.max(idle_since));
        // The session has ended only if no node has seen a use in time.
        if now.since(idle_since) > self.0.settings.session_inactivity {
            return Err(AuthenticateError::Expired { token: token.id });
        }
        if let Err(error) = tokens.touch_many(&[(token.id, now)]).await {
            // The next run of `write_last_used_once` writes it.
            tracing::warn!(%error, "could not store the use of a session");
        }
        Ok(())
    }

    /// Stores when tokens and app passwords were last used since the previous run. Returns their number.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is; the uses are kept for the next run.
    pub async fn write_last_used_once(&self) -> Result<usize, Unavailable> {
        let (tokens, app_passwords) = (self.0.last_used.unwritten(), self.0.app_passwords_used.unwritten());
        let now = self.0.clock.now();
        if !tokens.is_empty() {
            self.0.store.tokens().touch_many(&tokens).await?;
            self.0.last_used.written(&tokens, now.minus(self.0.settings.session_inactivity));
        }
        if !app_passwords.is_empty() {
            self.0.store.app_passwords().touch_many(&app_passwords).await?;
            self.0.app_passwords_used.written(&app_passwords, now);
        }
        Ok(tokens.len() + app_passwords.len())
    }
}

/// The last use of each token, or of each app password. Written uses of tokens are kept as long as a session may be
/// inactive: a cached caller contains only the last use *before* it was cached. Losing a use in a crash ends a session
/// early at worst.
pub(crate) struct LastUsed<Id>(Mutex<HashMap<Id, Use>>);

impl<Id> Default for LastUsed<Id> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Clone, Copy)]
struct Use {
    at: Timestamp,
    is_written: bool,
}

impl<Id: Copy + Eq + Hash> LastUsed<Id> {
    /// The last use on this node.
    pub(crate) fn of(&self, id: Id) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).map(|noted| noted.at)
    }

    pub(crate) fn note(&self, id: Id, at: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Use { at, is_written: false });
    }

    fn unwritten(&self) -> Vec<(Id, Timestamp)> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().filter(|(_, used)| !used.is_written).map(|(id, used)| (*id, used.at)).collect()
    }

    /// Marks uses as written, except those that are not the last any more. Drops written uses before `oldest`.
    fn written(&self, uses: &[(Id, Timestamp)], oldest: Timestamp) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in uses {
            if let Some(used) = noted.get_mut(id)
                && used.at == *at
            {
                used.is_written = true;
            }
        }
        noted.retain(|_, used| !used.is_written || used.at >= oldest);
    }
}
