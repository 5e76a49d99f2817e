//! `GET /auth/me`.

use mailapi_model::{DomainName, Permission, TokenRecord};

use crate::Caller;

/// The caller's own token and permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// The caller's token.
    pub token: TokenRecord,
    /// The permissions granted to the caller.
    pub permissions: Vec<(Permission, DomainName)>,
}

impl Caller {
    /// The caller's own token and permissions; `None` for the operator at the command line, who has no token.
    #[must_use]
    pub fn me(&self) -> Option<Me> {
        let token = self.used_token()?;
        Some(Me { token, permissions: self.grants.delegated().to_vec() })
    }
}
