//! All SQL for accounts, domains, keys, tokens, permissions, sent mail and delivery events.
//!
//! Each area is one file whose statements run on every engine. [`sqlite`] is the engine of a single node; the
//! embedded message store keeps its tables in the same file. [`postgres`] is the engine for several nodes.

mod accounts;
mod aliases;
mod app_passwords;
mod db;
mod delivery_log;
mod directory;
mod dkim_keys;
mod dns_changes;
mod dns_providers;
mod domains;
mod error;
mod events;
mod fact_numbers;
mod foreign_changes;
mod former_names;
mod greylist;
mod mail_owner;
mod migration;
mod name_locks;
mod permissions;
#[cfg(test)]
mod plans;
pub mod postgres;
mod received_mail;
mod rules;
mod secrets;
mod sent;
mod sign_up;
pub mod sqlite;
mod stats;
mod statuses;
mod store;
mod tokens;
mod webhooks;

pub use accounts::{AccountFilter, Accounts, Verified};
pub use aliases::{AliasFilter, AliasStored, Aliases};
pub use app_passwords::AppPasswords;
pub use delivery_log::{Appended, DeliveryLog, DeliveryLogFilter, Member, Reports};
pub use directory::{
    Copied, Copies, Directory, DirectoryMailbox, DirectoryPage, DirectoryPlace, DirectoryQueries, DirectoryQueryError,
    DirectoryQuota, DirectorySettings, RowFault, RowFaultKind,
};
pub use dkim_keys::DkimKeys;
pub use dns_changes::DnsChanges;
pub use dns_providers::DnsProviders;
pub use domains::{DomainChange, DomainDeleted, DomainFilter, Domains};
pub use error::StoreError;
pub use events::{EventFilter, EventPage, EventScope, Events, OwnEvents, StoredEvent, insert_event};
pub use foreign_changes::ForeignChanges;
pub use greylist::{Greylist, GreylistAnswer, GreylistAttempt, GreylistRemoval, GreylistRoom, GreylistRows};
pub use mail_owner::{MailClaim, MailClaimed, MailOwner, MailOwners};
pub use name_locks::NameLock;
pub use permissions::{NewGrant, PermissionFilter, Permissions};
pub use received_mail::{WaitingMail, WaitingMails};
pub use rules::Rules;
pub use secrets::Secrets;
pub use sent::{
    Begun, EnlistedRecord, Failure, Idempotency, NewSent, OpenMessages, OpenRecipient, PendingMessage, Sent,
    SentFilter, SentOwner, SentRecord, StoredAnswer,
};
pub use sign_up::{NewSignUp, SignUpRoom};
pub use stats::{
    Hours, InboundCounts, InboundEvent, InboundOutcome, RollUpSize, RolledUp, SentCounts, SentScope, Span, Stats,
};
pub use store::{SQLITE_SCHEMA, Store};
pub use tokens::{NewSession, TokenChange, TokenFilter, Tokens};
pub use webhooks::{
    DisabledWebhook, FailedAttempt, NewWebhook, NewWebhookError, PassedWebhook, SendingWebhook, Webhook, WebhookChange,
    WebhookClaim, WebhookFailure, WebhookLimits, WebhookProgress, Webhooks,
};
