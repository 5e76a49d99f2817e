//! `POST /users/{email}/app-passwords`.

use mailapi_model::{AppPassword, AppPasswordValue, EmailAddress, NewAppPassword, OneLine, Violations};
use mailapi_store::StoreError;

use crate::caller::audit;
use crate::users::UserError;
use crate::{Caller, Service};

/// Maximum number of app passwords of a mailbox: more than anyone has mail programs.
const MOST: u32 = 50;

/// Number of values to try. A mailbox with 49 app passwords has another one with the look-up key of a new value in one
/// of 1,300 cases.
const TRIES: usize = 10;

impl Service {
    /// Creates an app password. Its value is returned only here and not stored.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn create_app_password(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        name: &str,
    ) -> Result<(AppPassword, AppPasswordValue), UserError> {
        self.may_manage_app_passwords(caller, email)?;
        let name = named(name)?;
        self.demand_own(email).await?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        let (record, value) = self.insert_app_password(email, name).await?;
        self.0.events.wake();
        audit!(caller, mailbox = %email, app_password = %record.id, "app password created");
        Ok((record, value))
    }

    async fn insert_app_password(
        &self,
        email: &EmailAddress,
        name: String,
    ) -> Result<(AppPassword, AppPasswordValue), UserError> {
        let mut tries = 1;
        loop {
            let value = AppPasswordValue::random(self.0.entropy.as_ref());
            let new = NewAppPassword {
                email: email.clone(),
                name: name.clone(),
                lookup_key: value.lookup_key(),
                hash: self.hash_app_password(&value),
                created_at: self.0.clock.now(),
            };
            match self.0.store.app_passwords().insert(&new, MOST).await {
                Ok(record) => return Ok((record, value)),
                Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
                Err(error) if error.is_guard_failed() => return Err(too_many().into()),
                // The account was deleted meanwhile.
                Err(StoreError::Reference) => return Err(UserError::NotFound),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn named(name: &str) -> Result<String, Violations> {
    if name.trim().is_empty() {
        return Err(Violations::of("name", "must not be empty"));
    }
    OneLine::parse("name", name)
}

fn too_many() -> Violations {
    Violations::of("email", format!("has {MOST} app passwords already; revoke an unused one"))
}
