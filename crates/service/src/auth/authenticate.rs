//! From a token's value to a caller.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use mailapi_model::{Grants, StoredToken, Timestamp, TokenHash, TokenId, TokenRecord, TokenValue};

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
    Expired,
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
                let caller = self.look_up(&hash).await?;
                self.0.callers.put(hash, mark, caller.clone());
                caller
            }
        };
        self.note_use(caller)
    }

    async fn look_up(&self, hash: &TokenHash) -> Result<Caller, AuthenticateError> {
        let StoredToken { record, owner_active } =
            self.0.store.tokens().by_hash(hash).await?.ok_or(AuthenticateError::Unknown)?;
        if !record.is_active || !owner_active {
            return Err(AuthenticateError::Expired);
        }
        let grants = match &record.email {
            None => Grants::admin_token(),
            Some(mailbox) => self.grants_of(mailbox).await?,
        };
        Ok(Caller { grants, token: Some(record) })
    }

    /// What the owner of `mailbox` may do.
    pub(crate) async fn grants_of(&self, mailbox: &mailapi_model::EmailAddress) -> Result<Grants, Unavailable> {
        let held = self.0.store.permissions().of(mailbox).await?;
        let delegated = held.into_iter().map(|record| (record.permission, record.domain)).collect();
        Ok(Grants::of_mailbox(mailbox.clone(), self.0.settings.admins.contains(mailbox), delegated))
    }

    /// Checks the token's time and notes that it was used.
    fn note_use(&self, mut caller: Caller) -> Result<Caller, AuthenticateError> {
        let now = self.0.clock.now();
        if let Some(token) = &mut caller.token {
            let last_used = self.0.last_used.of(token);
            let idle_since = last_used.unwrap_or(token.created_at);
            let idle = token.is_session && now.since(idle_since) > self.0.settings.session_inactivity;
            if idle || token.expires_at.is_some_and(|end| end <= now) {
                return Err(AuthenticateError::Expired);
            }
            self.0.last_used.note(token.id, now);
            token.last_used_at = Some(now);
        }
        Ok(caller)
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
        self.0.last_used.written(&uses);
        Ok(uses.len())
    }
}

/// When tokens were last used, until it is written down. Losing it in a crash ends a session early at worst.
#[derive(Default)]
pub(crate) struct LastUsed(Mutex<HashMap<TokenId, Timestamp>>);

impl LastUsed {
    fn of(&self, token: &TokenRecord) -> Option<Timestamp> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token.id).copied();
        noted.max(token.last_used_at)
    }

    fn note(&self, id: TokenId, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, now);
    }

    fn unwritten(&self) -> Vec<(TokenId, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(id, at)| (*id, *at)).collect()
    }

    /// Forgets what was written, but for tokens that were used again in the meantime.
    fn written(&self, uses: &[(TokenId, Timestamp)]) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in uses {
            if noted.get(id) == Some(at) {
                noted.remove(id);
            }
        }
    }
}
