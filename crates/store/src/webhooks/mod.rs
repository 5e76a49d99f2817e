//! Webhooks, and the events whose first attempt failed.

pub(crate) mod failures;
mod progress;

use mailapi_events::{EventCursor, TypePattern};
use mailapi_model::{
    DomainName, EmailAddress, Listed, Page, Secret, Timestamp, TokenId, WebhookAuthor, WebhookDisabled, WebhookId,
    WebhookSigning,
};

use crate::StoreError;
use crate::db::{BatchLock, Db, Filter, List, Row, Stmt, exactly_one};

pub use failures::{FailedAttempt, WebhookFailure};
pub use progress::{DisabledWebhook, PassedWebhook, WebhookClaim, WebhookProgress};

/// The webhooks.
#[derive(Debug, Clone, Copy)]
pub struct Webhooks<'a>(pub(crate) &'a Db);

/// A webhook to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// The receiver's URL.
    pub url: String,
    /// The types of events to send.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Who registers it.
    pub author: WebhookAuthor,
    /// Free text.
    pub description: String,
    /// How messages are signed.
    pub signing: WebhookSigning,
    /// The key that signs.
    pub key: Secret<Vec<u8>>,
    /// Whether to send.
    pub enabled: bool,
    /// Whether the receiver echoed a challenge, or needs none.
    pub confirmed: bool,
    /// The position in the log of events at which it begins.
    pub cursor: EventCursor,
    /// When it is added.
    pub created_at: Timestamp,
}

/// The maximum numbers of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Of one mailbox, or of one API token of admins.
    pub by_one: u32,
    /// For the events of one domain, and for those of all domains.
    pub of_domain: u32,
}

/// Why a webhook was not added.
#[derive(Debug, thiserror::Error)]
pub enum NewWebhookError {
    /// The token or the mailbox has the maximum number.
    #[error("the caller has the maximum number of webhooks")]
    TooManyOfOne,
    /// The domain has the maximum number.
    #[error("the domain has the maximum number of webhooks")]
    TooManyOfDomain,
    /// The domain or a mailbox does not exist.
    #[error("the domain or the mailbox does not exist")]
    Unknown,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its number.
    pub id: WebhookId,
    /// The receiver's URL.
    pub url: String,
    /// The types of events to send.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Who registered it, or enabled it after the author had lost the rights.
    pub author: WebhookAuthor,
    /// Free text.
    pub description: String,
    /// How messages are signed.
    pub signing: WebhookSigning,
    /// The key that signs.
    pub key: Secret<Vec<u8>>,
    /// The key before a rotation, and until when it also signs.
    pub former_key: Option<(Secret<Vec<u8>>, Timestamp)>,
    /// Whether events are sent.
    pub enabled: bool,
    /// Whether the receiver echoed a challenge, or needs none. Otherwise it gets nothing else.
    pub confirmed: bool,
    /// Why the webhook is disabled.
    pub disabled_because: Option<WebhookDisabled>,
    /// The position after the last event that needs no first attempt: it was sent, or its failure is stored.
    pub cursor: EventCursor,
    /// Since when every attempt failed; `None` after a success.
    pub failing_since: Option<Timestamp>,
    /// Until when nothing is sent, because the receiver answered 429 or 503.
    pub paused_until: Option<Timestamp>,
    /// The latest attempt.
    pub last_attempt_at: Option<Timestamp>,
    /// The latest successful attempt.
    pub last_success_at: Option<Timestamp>,
    /// The latest failure, for admins; `None` after a success.
    pub last_error: Option<String>,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its owner last changed it.
    pub updated_at: Timestamp,
    /// Counts changes by requests, replays included.
    pub revision: i64,
}

/// A webhook that sends, and what it wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendingWebhook {
    /// Its number.
    pub id: WebhookId,
    /// Counts changes by requests, replays included.
    pub revision: i64,
    /// The user who owns it; `None` for a webhook of admins.
    pub user: Option<EmailAddress>,
    /// The types of events to send.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox.
    pub mailbox: Option<EmailAddress>,
    /// The position after the last event that needs no first attempt.
    pub cursor: EventCursor,
}

/// Changes to a webhook; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// A new URL.
    pub url: Option<String>,
    /// New types.
    pub types: Option<Vec<TypePattern>>,
    /// A new description.
    pub description: Option<String>,
    /// Whether to send. Enabling also ends a pause and forgets earlier failures.
    pub enabled: Option<bool>,
    /// Whether the receiver echoed a challenge now.
    pub confirmed: bool,
    /// A new author, in place of one without rights. The user who owns a webhook stays the same.
    pub author: Option<WebhookAuthor>,
}

const COLUMNS: &str = "id, url, types, domain, mailbox, mailbox_given, owner, owner_given, admin, admin_given, \
                       token_id, description, signing, signing_key, former_key, former_key_until, enabled, \
                       confirmed, disabled_because, cursor, failing_since, paused_until, last_attempt_at, \
                       last_success_at, last_error, created_at, updated_at, revision";

pub(crate) const WEBHOOKS: List =
    List { table: "webhooks", key: "id", order: "created_at DESC, id DESC", columns: COLUMNS };

impl Webhooks<'_> {
    /// Adds a webhook.
    ///
    /// # Errors
    /// See [`NewWebhookError`].
    pub async fn insert(&self, new: &NewWebhook, limits: WebhookLimits) -> Result<Webhook, NewWebhookError> {
        let statements = vec![room_by_one(new, limits.by_one), room_of_domain(new, limits.of_domain), insert(new)];
        let mut effects = match self.0.batch_with_lock(BatchLock::Webhooks, statements).await {
            Err(StoreError::Guard { statement: 0, .. }) => return Err(NewWebhookError::TooManyOfOne),
            Err(StoreError::Guard { .. }) => return Err(NewWebhookError::TooManyOfDomain),
            Err(StoreError::Reference) => return Err(NewWebhookError::Unknown),
            effects => effects?,
        };
        let row = effects.pop().and_then(|effect| effect.rows.into_iter().next());
        Ok(read(row.ok_or_else(|| StoreError::unexpected("a new webhook has no row"))?)?)
    }

    /// Returns the webhook with this number.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE id = $1");
        self.0.first(Stmt::new(sql).bind(id)).await?.map(read).transpose()
    }

    /// Returns a page of the webhooks, newest first: all, or those that this mailbox registered.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, owner: Option<&EmailAddress>, page: Page) -> Result<Listed<Webhook>, StoreError> {
        WEBHOOKS.page(self.0, conditions(owner), page, read).await
    }

    /// Returns the enabled webhooks whose owners are active.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sending(&self) -> Result<Vec<SendingWebhook>, StoreError> {
        let sql = "SELECT webhooks.id, revision, owner, owner_given, types, webhooks.domain, mailbox, mailbox_given, \
                   cursor FROM webhooks LEFT JOIN accounts ON accounts.email = webhooks.owner \
                   WHERE enabled AND (owner IS NULL OR accounts.active) ORDER BY webhooks.id";
        let rows = exactly_one(self.0.scan(vec![Stmt::new(sql)]).await?)?;
        rows.into_iter().map(read_sending).collect()
    }

    /// Changes a webhook; returns it, if it exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update(
        &self,
        id: WebhookId,
        change: &WebhookChange,
        now: Timestamp,
    ) -> Result<Option<Webhook>, StoreError> {
        let author = change.author.as_ref();
        let admin = author.and_then(admin);
        let sql = format!(
            "UPDATE webhooks SET url = COALESCE(CAST($2 AS TEXT), url), types = COALESCE(CAST($3 AS TEXT), types), \
             description = COALESCE(CAST($4 AS TEXT), description), \
             enabled = COALESCE(CAST($5 AS BOOLEAN), enabled), \
             disabled_because = CASE WHEN CAST($5 AS BOOLEAN) IS NULL THEN disabled_because \
                                WHEN CAST($5 AS BOOLEAN) THEN NULL ELSE $6 END, \
             failing_since = CASE WHEN CAST($5 AS BOOLEAN) THEN NULL ELSE failing_since END, \
             paused_until = CASE WHEN CAST($5 AS BOOLEAN) THEN NULL ELSE paused_until END, \
             admin = CASE WHEN $8 THEN CAST($9 AS TEXT) ELSE admin END, \
             admin_given = CASE WHEN $8 THEN CAST($10 AS TEXT) ELSE admin_given END, \
             token_id = CASE WHEN $8 THEN CAST($11 AS BIGINT) ELSE token_id END, \
             confirmed = confirmed OR $12, \
             notice_id = CASE WHEN CAST($5 AS BOOLEAN) THEN NULL ELSE notice_id END, revision = revision + 1, \
             updated_at = $7 WHERE id = $1 RETURNING {COLUMNS}"
        );
        let update = Stmt::new(sql)
            .bind(id)
            .bind(change.url.clone())
            .bind(change.types.as_deref().map(joined))
            .bind(change.description.clone())
            .bind(change.enabled)
            .bind(WebhookDisabled::Request.as_str())
            .bind(now)
            .bind(author.is_some())
            .bind(admin)
            .bind(admin.and_then(EmailAddress::given))
            .bind(author.and_then(WebhookAuthor::token))
            .bind(change.confirmed);
        self.0.execute(update).await?.rows.into_iter().next().map(read).transpose()
    }

    /// Replaces the key of a webhook. The former one also signs until `until`. Returns the webhook, if it exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn rotate(
        &self,
        id: WebhookId,
        key: &Secret<Vec<u8>>,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Webhook>, StoreError> {
        let sql = format!(
            "UPDATE webhooks SET former_key = signing_key, former_key_until = $3, signing_key = $2, \
             revision = revision + 1, updated_at = $4 WHERE id = $1 RETURNING {COLUMNS}"
        );
        let rotate = Stmt::new(sql).bind(id).bind(key).bind(until).bind(now);
        self.0.execute(rotate).await?.rows.into_iter().next().map(read).transpose()
    }

    /// Deletes a webhook and its failures; returns whether it existed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, id: WebhookId) -> Result<bool, StoreError> {
        Ok(self.0.execute(Stmt::new("DELETE FROM webhooks WHERE id = $1").bind(id)).await?.touched > 0)
    }
}

pub(crate) fn conditions(owner: Option<&EmailAddress>) -> Filter {
    Filter::all().when("owner = ?", owner)
}

/// Fails the batch if the author has `most` webhooks. Those of the operator have no such limit.
fn room_by_one(new: &NewWebhook, most: u32) -> Stmt {
    let most = i64::from(most);
    let room = |column: &str| format!("SELECT 1 WHERE (SELECT COUNT(*) FROM webhooks WHERE {column} = $1) < $2");
    match &new.author {
        WebhookAuthor::Operator => Stmt::new("SELECT 1").demand(1),
        WebhookAuthor::AdminToken(token) => Stmt::new(room("token_id")).bind(*token).bind(most).demand(1),
        WebhookAuthor::Admin(mailbox) => Stmt::new(room("admin")).bind(mailbox).bind(most).demand(1),
        // The tokens of one mailbox count together.
        WebhookAuthor::User(mailbox, _) => Stmt::new(room("owner")).bind(mailbox).bind(most).demand(1),
    }
}

/// Fails the batch if the domain of the webhook's events has `most` webhooks.
fn room_of_domain(new: &NewWebhook, most: u32) -> Stmt {
    let sql = "SELECT 1 WHERE (SELECT COUNT(*) FROM webhooks WHERE counted_domain = $1) < $2";
    Stmt::new(sql).bind(counted_domain(new)).bind(i64::from(most)).demand(1)
}

fn counted_domain(new: &NewWebhook) -> String {
    let of_mailbox = || new.mailbox.as_ref().map(|mailbox| mailbox.domain_str().to_owned());
    new.domain.as_ref().map(|domain| domain.as_str().to_owned()).or_else(of_mailbox).unwrap_or_default()
}

fn insert(new: &NewWebhook) -> Stmt {
    let sql = format!(
        "INSERT INTO webhooks (url, types, domain, mailbox, mailbox_given, owner, owner_given, admin, admin_given, \
         token_id, counted_domain, description, signing, signing_key, enabled, disabled_because, cursor, created_at, \
         updated_at, confirmed) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18, $19) \
         RETURNING {COLUMNS}"
    );
    let (owner, admin) = (new.author.user(), admin(&new.author));
    Stmt::new(sql)
        .bind(new.url.as_str())
        .bind(joined(&new.types))
        .bind(new.domain.as_ref())
        .bind(new.mailbox.as_ref())
        .bind(new.mailbox.as_ref().and_then(EmailAddress::given))
        .bind(owner)
        .bind(owner.and_then(EmailAddress::given))
        .bind(admin)
        .bind(admin.and_then(EmailAddress::given))
        .bind(new.author.token())
        .bind(counted_domain(new))
        .bind(new.description.as_str())
        .bind(new.signing.as_str())
        .bind(&new.key)
        .bind(new.enabled)
        .bind((!new.enabled).then(|| WebhookDisabled::Request.as_str()))
        .bind(crate::db::number(new.cursor.number()))
        .bind(new.created_at)
        .bind(new.confirmed)
}

/// Returns the admin's mailbox that registered a webhook.
const fn admin(author: &WebhookAuthor) -> Option<&EmailAddress> {
    match author {
        WebhookAuthor::Admin(mailbox) => Some(mailbox),
        WebhookAuthor::Operator | WebhookAuthor::AdminToken(_) | WebhookAuthor::User(..) => None,
    }
}

fn joined(types: &[TypePattern]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn read(mut row: Row) -> Result<Webhook, StoreError> {
    Ok(Webhook {
        id: WebhookId(row.int()?),
        url: row.text()?,
        types: types(&row.text()?)?,
        domain: row.parsed_or_null()?,
        mailbox: row.address_or_null()?,
        author: read_author(&mut row)?,
        description: row.text()?,
        signing: row.parsed()?,
        key: Secret::new(row.bytes()?),
        former_key: row.bytes_or_null()?.map(Secret::new).zip(row.time_or_null()?),
        enabled: row.bool()?,
        confirmed: row.bool()?,
        disabled_because: row.parsed_or_null()?,
        cursor: EventCursor::after_number(row.unsigned()?),
        failing_since: row.time_or_null()?,
        paused_until: row.time_or_null()?,
        last_attempt_at: row.time_or_null()?,
        last_success_at: row.time_or_null()?,
        last_error: row.text_or_null()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        revision: row.int()?,
    })
}

fn read_sending(mut row: Row) -> Result<SendingWebhook, StoreError> {
    Ok(SendingWebhook {
        id: WebhookId(row.int()?),
        revision: row.int()?,
        user: row.address_or_null()?,
        types: types(&row.text()?)?,
        domain: row.parsed_or_null()?,
        mailbox: row.address_or_null()?,
        cursor: EventCursor::after_number(row.unsigned()?),
    })
}

fn read_author(row: &mut Row) -> Result<WebhookAuthor, StoreError> {
    let (owner, admin) = (row.address_or_null()?, row.address_or_null()?);
    let token = row.int_or_null()?.map(TokenId);
    Ok(match (owner, admin, token) {
        (Some(owner), _, token) => WebhookAuthor::User(owner, token),
        (None, Some(admin), _) => WebhookAuthor::Admin(admin),
        (None, None, Some(token)) => WebhookAuthor::AdminToken(token),
        (None, None, None) => WebhookAuthor::Operator,
    })
}

fn types(text: &str) -> Result<Vec<TypePattern>, StoreError> {
    let parse = |pattern: &str| pattern.parse().map_err(|_| StoreError::unexpected("a webhook has an unknown type"));
    text.split_ascii_whitespace().map(parse).collect()
}
