//! App passwords.

use mailapi_events::{app_password_created, app_password_revoked};
use mailapi_model::{
    AppPassword, AppPasswordId, EmailAddress, Listed, NewAppPassword, Page, StoredAppPassword, Timestamp,
};

use crate::StoreError;
use crate::accounts::{hold_account_alone, read_credentials};
use crate::db::{Db, Filter, List, Row, Stmt, Value, first_guard_held};
use crate::events::Log;

/// The app passwords.
#[derive(Debug, Clone, Copy)]
pub struct AppPasswords<'a>(pub(crate) &'a Db);

pub(crate) const APP_PASSWORDS: List = List {
    table: "app_passwords",
    key: "id",
    order: "created_at DESC, id DESC",
    columns: "id, name, created_at, last_used_at",
};

/// The newest one of a mailbox.
const NEWEST: &str = "SELECT MAX(id) AS id FROM app_passwords WHERE email = $9";

impl AppPasswords<'_> {
    /// Adds an app password and assigns its id.
    ///
    /// # Errors
    /// [`StoreError::Guard`] when the mailbox has `most`, [`StoreError::Conflict`] when one of them has this look-up
    /// key, [`StoreError::Reference`] when the mailbox does not exist.
    pub async fn insert(&self, new: &NewAppPassword, most: u32) -> Result<AppPassword, StoreError> {
        let (event, rest) = app_password_created(new, self.0.next_fact());
        let statements = vec![
            // With a shared lock, concurrent inserts would all count the same number.
            hold_account_alone(&new.email),
            room_for_one(&new.email, most),
            insert_app_password(new),
            Log::of(self.0).insert_with_id(&event, NEWEST, &new.email, &rest),
        ];
        let mut effects = self.0.batch(statements).await?;
        effects.truncate(3);
        let added = effects.pop().and_then(|effect| effect.rows.into_iter().next());
        let mut row = added.ok_or_else(|| StoreError::unexpected("an insert returned no row"))?;
        let NewAppPassword { name, created_at, .. } = new.clone();
        Ok(AppPassword { id: AppPasswordId(row.int()?), name, created_at, last_used_at: None })
    }

    /// Returns a page of the app passwords of a mailbox, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, email: &EmailAddress, page: Page) -> Result<Listed<AppPassword>, StoreError> {
        APP_PASSWORDS.page(self.0, of_mailbox(email), page, read_app_password).await
    }

    /// Deletes an app password of this mailbox; returns whether it existed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn revoke(&self, email: &EmailAddress, id: AppPasswordId, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "DELETE FROM app_passwords WHERE id = $1 AND email = $2";
        let revoke = Stmt::new(sql).bind(id).bind(email).demand(1);
        let event = Log::of(self.0).insert(&app_password_revoked(email, id, now, self.0.next_fact()));
        first_guard_held(self.0.batch(vec![revoke, event]).await)
    }

    /// Returns the app password of this mailbox with this look-up key, unless the account is closed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn with_key(&self, email: &EmailAddress, key: &str) -> Result<Option<StoredAppPassword>, StoreError> {
        self.stored(email, "lookup_key = $2", key).await
    }

    /// Returns the app password of this mailbox with this id, unless the account is closed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, email: &EmailAddress, id: AppPasswordId) -> Result<Option<StoredAppPassword>, StoreError> {
        self.stored(email, "id = $2", id).await
    }

    async fn stored(
        &self,
        email: &EmailAddress,
        which: &str,
        value: impl Into<Value>,
    ) -> Result<Option<StoredAppPassword>, StoreError> {
        let sql = format!(
            "SELECT app_passwords.id, accounts.email, accounts.email_given, accounts.name, app_passwords.hash, active, \
             sessions_ended FROM app_passwords JOIN accounts ON accounts.email = app_passwords.email \
             WHERE app_passwords.email = $1 AND app_passwords.{which} AND NOT closed"
        );
        self.0.first(Stmt::new(sql).bind(email).bind(value)).await?.map(read_stored).transpose()
    }

    /// Records when app passwords were last used. An earlier time never replaces a later one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn touch_many(&self, uses: &[(AppPasswordId, Timestamp)]) -> Result<(), StoreError> {
        let sql =
            "UPDATE app_passwords SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
        // Update rows in a fixed order, so that two nodes cannot deadlock.
        let mut uses = uses.to_vec();
        uses.sort_unstable();
        self.0.batch(uses.into_iter().map(|(id, at)| Stmt::new(sql).bind(id).bind(at)).collect()).await.map(drop)
    }
}

/// Fails the batch if the mailbox has `most` app passwords.
fn room_for_one(email: &EmailAddress, most: u32) -> Stmt {
    let sql = "SELECT 1 WHERE (SELECT COUNT(*) FROM app_passwords WHERE email = $1) < $2";
    Stmt::new(sql).bind(email).bind(i64::from(most)).demand(1)
}

fn insert_app_password(new: &NewAppPassword) -> Stmt {
    let sql = "INSERT INTO app_passwords (email, name, lookup_key, hash, created_at) VALUES ($1, $2, $3, $4, $5) \
               RETURNING id";
    Stmt::new(sql)
        .bind(&new.email)
        .bind(new.name.as_str())
        .bind(new.lookup_key.as_str())
        .bind(&new.hash)
        .bind(new.created_at)
}

pub(crate) fn of_mailbox(email: &EmailAddress) -> Filter {
    Filter::all().when("email = ?", Some(email))
}

fn read_app_password(mut row: Row) -> Result<AppPassword, StoreError> {
    Ok(AppPassword {
        id: AppPasswordId(row.int()?),
        name: row.text()?,
        created_at: row.time()?,
        last_used_at: row.time_or_null()?,
    })
}

fn read_stored(mut row: Row) -> Result<StoredAppPassword, StoreError> {
    Ok(StoredAppPassword { id: AppPasswordId(row.int()?), credentials: read_credentials(row)? })
}
