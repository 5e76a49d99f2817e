//! Whoever asks.

use mailapi_model::{Grants, TokenRecord};

/// Whoever asks, after their token was checked.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What they may do.
    pub grants: Grants,
    /// The token that they showed; the operator at the command line shows none.
    pub token: Option<TokenRecord>,
}

impl Caller {
    /// The operator at the machine's own command line, who may do everything.
    #[must_use]
    pub const fn operator() -> Self {
        Self { grants: Grants::admin_token(), token: None }
    }

    /// What is noted as the author of a change: the mailbox, or the token's name.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.grants.mailbox(), &self.token) {
            (Some(mailbox), _) => mailbox.shown().to_owned(),
            (None, Some(token)) => token.name.clone(),
            (None, None) => "operator".to_owned(),
        }
    }
}
