//! `GET /auth/me`.

use mailapi_model::{DomainName, Permission, TokenRecord};

use crate::Caller;

/// What a caller is told of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// The token that it shows.
    pub token: TokenRecord,
    /// What was delegated to it.
    pub permissions: Vec<(Permission, DomainName)>,
}

impl Caller {
    /// What this caller is told of itself; `None` for the operator at the command line, who shows no token.
    #[must_use]
    pub fn me(&self) -> Option<Me> {
        let token = self.used_token()?;
        Some(Me { token, permissions: self.grants.delegated().to_vec() })
    }
}
