//! Sign-up: creates a domain, its first account, the permission to manage it, and a session in one
//! transaction.

use mailapi_events::{domain_created, user_created};
use mailapi_model::{NewAccount, NewDomain, NewToken, Permission, TokenId, TokenRecord};

use crate::accounts::insert_account;
use crate::db::{BatchLock, Changed, Stmt, exactly_one, number};
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

/// Maximum numbers of domains that wait for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignUpRoom {
    /// Of all clients.
    pub of_all: u64,
    /// Of one client's network.
    pub of_client: u64,
}

impl Store {
    /// Returns whether a further domain of this network may wait for approval. Only [`Store::sign_up`] decides that;
    /// this answer is for callers that have expensive work to do before it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn has_room_for_sign_up(&self, network: &str, room: SignUpRoom) -> Result<bool, StoreError> {
        let found = self.db().read(room_for_one(network, room)).await?;
        Ok(found.iter().all(|rows| !rows.is_empty()))
    }

    /// Stores a domain, its first account with `manage_domains` on it, and a session, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Guard`] when a limit is reached, [`StoreError::Conflict`] when the domain or the account exists.
    pub async fn sign_up(&self, new: &NewSignUp, room: SignUpRoom) -> Result<TokenRecord, StoreError> {
        let grant = NewGrant {
            email: new.account.email.clone(),
            domain: new.domain.name.clone(),
            permissions: vec![Permission::ManageDomains],
            granted_by: GRANTED_BY.to_owned(),
            granted_at: new.domain.created_at,
        };
        let log = Log::of(self.db());
        let mut statements = room_for_one(&new.from, room);
        statements.extend([
            log.insert(&domain_created(&new.domain, self.db().next_fact())),
            log.insert(&user_created(&new.account, self.db().next_fact())),
            insert_domain(&new.domain),
            Stmt::new("UPDATE domains SET signed_up_from = $2 WHERE name = $1")
                .bind(&new.domain.name)
                .bind(new.from.as_str()),
            insert_account(&new.account),
            insert_permission(&grant, Permission::ManageDomains),
            insert_token(&new.session),
        ]);
        let changed = vec![Changed::Domain(new.domain.name.clone()), Changed::NewAccount(new.account.email.clone())];
        // Without the lock, concurrent sign-ups would all count the same number.
        let mut effects = self.db().batch_all_followed_with_lock(BatchLock::SignUps, changed, statements).await?;
        // The token is the last statement.
        let stored = effects.pop().map(|token| token.rows).unwrap_or_default();
        Ok(new_record(&new.session, TokenId(exactly_one(stored)?.int()?)))
    }
}

/// Fails the batch if one of the limits is reached.
fn room_for_one(network: &str, room: SignUpRoom) -> Vec<Stmt> {
    let of_all = "SELECT 1 WHERE (SELECT COUNT(*) FROM domains WHERE NOT approved) < $1";
    let of_client = "SELECT 1 WHERE (SELECT COUNT(*) FROM domains WHERE NOT approved AND signed_up_from = $1) < $2";
    vec![
        Stmt::new(of_all).bind(number(room.of_all)).demand(1),
        Stmt::new(of_client).bind(network).bind(number(room.of_client)).demand(1),
    ]
}
