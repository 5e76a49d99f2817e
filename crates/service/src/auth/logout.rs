//! `POST /auth/logout`.

use mailapi_model::TokenRecord;

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// The reason why a session was neither ended nor renewed.
#[derive(Debug, thiserror::Error)]
pub enum NotASession {
    /// The caller has an API token instead.
    #[error("only a session can be logged out or refreshed; revoke an API token instead")]
    ApiToken,
    /// The session has ended meanwhile, by another refresh or a logout.
    #[error("the session has ended")]
    Ended,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(NotASession);

impl Service {
    /// Ends the caller's session.
    ///
    /// # Errors
    /// See [`NotASession`].
    pub async fn logout(&self, caller: &Caller) -> Result<(), NotASession> {
        let session = session_of(caller)?;
        self.0.store.tokens().revoke(session.id, self.0.clock.now()).await?;
        self.0.epoch.end();
        Ok(())
    }
}

/// The caller's session.
pub(super) fn session_of(caller: &Caller) -> Result<&TokenRecord, NotASession> {
    caller.token.as_deref().filter(|token| token.is_session).ok_or(NotASession::ApiToken)
}
