//! `POST /auth/refresh`.

use super::logout::session_of;
use super::{NotASession, Session};
use crate::{Caller, Service};

impl Service {
    /// Replaces the caller's session by a new one. The old one ends at once.
    ///
    /// # Errors
    /// See [`NotASession`].
    pub async fn refresh(&self, caller: &Caller) -> Result<Session, NotASession> {
        let old = session_of(caller)?;
        let mailbox = old.email.as_ref().ok_or(NotASession::ApiToken)?;
        let (value, token) = self.session_token(mailbox, old.name.clone());
        let record = self.0.store.tokens().replace(old.id, &token).await?.ok_or(NotASession::Ended)?;
        self.0.epoch.end();
        Ok(Session { value, record })
    }
}
