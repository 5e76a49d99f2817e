//! From a token's value to a caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_model::{
    EmailAddress, Grants, StoredToken, Timestamp, TokenHash, TokenId, TokenKind, TokenRecord, TokenValue,
};

use crate::cache::EpochCache;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Callers by the hash of their token's value.
pub(crate) type CallerCache = EpochCache<TokenHash, Caller>;

/// Why a token does not work.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    /// It was never given out.
    #[error("the token is not known")]
    Unknown,
    /// It was revoked, switched off or logged out, its time is over, or its mailbox is disabled or gone.
    #[error("the token has expired or is inactive")]
    Expired {
        /// Which token it is.
        token: TokenId,
    },
    /// It cannot be looked up.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(AuthenticateError);

impl Service {
    /// Who shows this token.
    ///
    /// # Errors
    /// See [`AuthenticateError`].
    pub async fn authenticate(&self, value: &TokenValue) -> Result<Caller, AuthenticateError> {
        let hash = value.hash();
        let mark = self.0.epoch.mark();
        let caller = match self.0.callers.get(&hash, mark) {
            Some(caller) => caller,
            None => {
                // Apart: within this future, which every request carries, it would take many times the room of the rest.
                let caller = Box::pin(self.look_up(&hash)).await?;
                self.0.callers.put(hash, mark, caller.clone());
                caller
            }
        };
        let is_session = caller.token.as_ref().is_some_and(|token| token.is_session);
        let noted = self.note_use(caller).await;
        // The end of an API token can be moved, so it is not stored.
        if let Err(AuthenticateError::Expired { token }) = &noted
            && is_session
        {
            self.keep_ended(*token).await;
        }
        noted
    }

    /// Marks an expired session as ended in the database, so that setting the clock back does not revive it.
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

    /// What the owner of `mailbox` may do through a token of this kind. A user token of an admin's mailbox is a user
    /// token: it reaches that mailbox.
    pub(crate) async fn grants_of(&self, mailbox: &EmailAddress, kind: TokenKind) -> Result<Grants, Unavailable> {
        let held = self.0.store.permissions().of(mailbox).await?;
        let delegated = held.into_iter().map(|record| (record.permission, record.domain)).collect();
        let is_admin = kind == TokenKind::Admin && self.0.settings.admins.contains(mailbox);
        Ok(Grants::of_mailbox(mailbox.clone(), is_admin, delegated))
    }

    /// Checks the token's time and notes that it was used.
    async fn note_use(&self, mut caller: Caller) -> Result<Caller, AuthenticateError> {
        let now = self.0.clock.now();
        if let Some(token) = &caller.token {
            if token.expires_at.is_some_and(|end| end <= now) {
                return Err(AuthenticateError::Expired { token: token.id });
            }
            let idle_since = self.0.last_used.of(token).unwrap_or(token.created_at);
            // The store is read for uses at other nodes, and this use is written, well before the session would end.
            if token.is_session && now.since(idle_since) > self.0.settings.session_inactivity / 2 {
                Box::pin(self.extend_session(token, idle_since, now)).await?;
            }
            self.0.last_used.note(token.id, now);
            caller.shown_at = Some(now);
        }
        Ok(caller)
    }

    /// Extends a session that was unused here for a while, unless no node has used it for too long.
    ///
    /// Each node writes its uses a few seconds late. Without this write, another node that is asked in these seconds
    /// would miss the first use after a long pause.
    async fn extend_session(
        &self,
        token: &TokenRecord,
        idle_since: Timestamp,
        now: Timestamp,
    ) -> Result<(), AuthenticateError> {
        let tokens = self.0.store.tokens();
        let elsewhere = tokens.get(token.id).await?.and_then(|stored| stored.last_used_at);
        let idle_since = elsewhere.map_or(idle_since, |used| used.max(idle_since));
        if now.since(idle_since) > self.0.settings.session_inactivity {
            return Err(AuthenticateError::Expired { token: token.id });
        }
        if let Err(error) = tokens.touch_many(&[(token.id, now)]).await {
            // The next run of `write_last_used_once` writes it.
            tracing::warn!(%error, "could not store the use of a session");
        }
        Ok(())
    }

    /// Writes down when tokens were last used, for all uses since the step before. Returns how many tokens it wrote.
    ///
    /// # Errors
    /// [`Unavailable`] when the store is; the uses are kept for the next step.
    pub async fn write_last_used_once(&self) -> Result<usize, Unavailable> {
        let uses = self.0.last_used.unwritten();
        if uses.is_empty() {
            return Ok(0);
        }
        self.0.store.tokens().touch_many(&uses).await?;
        let oldest = self.0.clock.now().minus(self.0.settings.session_inactivity);
        self.0.last_used.written(&uses, oldest);
        Ok(uses.len())
    }
}

/// When tokens were last used. What is written down is remembered for as long as a session may rest: a cached caller
/// knows only when its token was last used *before* it was cached. Losing it in a crash ends a session early at worst.
#[derive(Default)]
pub(crate) struct LastUsed(Mutex<HashMap<TokenId, Use>>);

#[derive(Clone, Copy)]
struct Use {
    at: Timestamp,
    is_written: bool,
}

impl LastUsed {
    fn of(&self, token: &TokenRecord) -> Option<Timestamp> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token.id).map(|noted| noted.at);
        noted.max(token.last_used_at)
    }

    fn note(&self, id: TokenId, at: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Use { at, is_written: false });
    }

    fn unwritten(&self) -> Vec<(TokenId, Timestamp)> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().filter(|(_, used)| !used.is_written).map(|(id, used)| (*id, used.at)).collect()
    }

    /// Notes what was written, but for tokens that were used again in the meantime, and forgets what was used before
    /// `oldest`.
    fn written(&self, uses: &[(TokenId, Timestamp)], oldest: Timestamp) {
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
