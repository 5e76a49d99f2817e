//! Sign-up: creates a domain, its first account, the permission to manage it, and a session in one
//! transaction.

use mailapi_events::{domain_created, user_created};
use mailapi_model::{NewAccount, NewDomain, NewToken, Permission, TokenId, TokenRecord};

use crate::accounts::insert_account;
use crate::db::{Changed, Stmt, exactly_one};
use crate::domains::insert_domain;
use crate::events::Log;
use crate::permissions::insert_permission;
use crate::tokens::{insert_token, new_record};
use crate::{NewGrant, Store, StoreError};

/// The grantor recorded for the permission of a sign-up.
const GRANTED_BY: &str = "signup";

/// The rows that a sign-up creates.
#[derive(Debug, Clone)]
pub struct NewSignUp {
    /// The domain.
    pub domain: NewDomain,
    /// Its first account.
    pub account: NewAccount,
    /// The client's network, which may have a limited number of domains waiting for approval.
    pub from: String,
    /// The session of the new account.
    pub session: NewToken,
}

impl Store {
    /// Returns the number of domains that were signed up from this network and wait for approval.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn pending_from(&self, network: &str) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) FROM domains WHERE NOT approved AND signed_up_from = $1";
        let count = exactly_one(self.db().query(Stmt::new(sql).bind(network)).await?)?.int()?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Stores a domain, its first account with `manage_domains` on it, and a session, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the domain or the account exists.
    pub async fn sign_up(&self, new: &NewSignUp) -> Result<TokenRecord, StoreError> {
        let grant = NewGrant {
            email: new.account.email.clone(),
            domain: new.domain.name.clone(),
            permissions: vec![Permission::ManageDomains],
            granted_by: GRANTED_BY.to_owned(),
            granted_at: new.domain.created_at,
        };
        let log = Log::of(self.db());
        let statements = vec![
            log.insert(&domain_created(&new.domain, self.db().next_fact())),
            log.insert(&user_created(&new.account, self.db().next_fact())),
            insert_domain(&new.domain),
            Stmt::new("UPDATE domains SET signed_up_from = $2 WHERE name = $1")
                .bind(&new.domain.name)
                .bind(new.from.as_str()),
            insert_account(&new.account),
            insert_permission(&grant, Permission::ManageDomains),
            insert_token(&new.session),
        ];
        let changed = vec![Changed::Domain(new.domain.name.clone()), Changed::NewAccount(new.account.email.clone())];
        // The token is the last statement.
        let stored =
            self.db().batch_all_followed(changed, statements).await?.pop().map(|token| token.rows).unwrap_or_default();
        Ok(new_record(&new.session, TokenId(exactly_one(stored)?.int()?)))
    }
}
