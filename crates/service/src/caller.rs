//! The caller of an operation.

use std::net::IpAddr;
use std::sync::Arc;

use mailapi_model::{Grants, Timestamp, TokenRecord};

/// An authenticated caller. Clones share their data.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The caller's permissions.
    pub grants: Arc<Grants>,
    /// The caller's token as of its look-up; `None` for the operator at the command line.
    pub token: Option<Arc<TokenRecord>>,
    /// The client's address; `None` for the operator at the command line.
    pub address: Option<IpAddr>,
    /// The time of this use of the token.
    pub(crate) shown_at: Option<Timestamp>,
    /// The operating-system user of a command.
    pub(crate) os_user: Option<Arc<str>>,
}

impl Caller {
    /// A caller without a token.
    #[must_use]
    pub fn without_token(grants: Grants) -> Self {
        Self { grants: Arc::new(grants), token: None, address: None, shown_at: None, os_user: None }
    }

    /// The operator of this machine, with all permissions.
    #[must_use]
    pub fn operator() -> Self {
        Self::without_token(Grants::admin_token())
    }

    /// The operator at the command line, as this user of the operating system.
    #[must_use]
    pub fn command_line(os_user: &str) -> Self {
        Self { os_user: Some(os_user.into()), ..Self::operator() }
    }

    /// Sets the client's address.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Self {
        Self { address: Some(address), ..self }
    }

    /// The caller's token, with this use as its last one.
    pub(crate) fn used_token(&self) -> Option<TokenRecord> {
        let token = self.token.as_deref()?;
        Some(TokenRecord { last_used_at: self.shown_at.or(token.last_used_at), ..token.clone() })
    }

    /// The caller's name in records of changes: the mailbox, or the token's name.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.grants.mailbox(), &self.token) {
            (Some(mailbox), _) => mailbox.shown().to_owned(),
            (None, Some(token)) => token.name.clone(),
            (None, None) if self.os_user.is_some() => "command line".to_owned(),
            (None, None) => "operator".to_owned(),
        }
    }
}

impl Caller {
    /// The id of the caller's token, for the log.
    pub(crate) fn token_number(&self) -> Option<i64> {
        self.token.as_ref().map(|token| token.id.0)
    }

    /// The operating-system user of a command, for the log.
    pub(crate) fn os_user(&self) -> Option<&str> {
        self.os_user.as_deref()
    }

    /// The origin of the request, for the log.
    pub(crate) fn origin(&self) -> String {
        self.address.map_or_else(|| "this machine".to_owned(), |address| address.to_string())
    }
}

/// Logs an administrative change with its author and origin.
macro_rules! audit {
    ($caller:expr, $($what:tt)+) => {
        tracing::info!(
            target: "mailapi::audit",
            by = $caller.name(), by_token = $caller.token_number(), os_user = $caller.os_user(),
            from = $caller.origin(), $($what)+
        )
    };
}

pub(crate) use audit;
