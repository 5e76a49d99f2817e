//! The domain model of mailapi: addresses, drafts, grants, statuses, records.
//!
//! No I/O, no async, no serialization. Every value of these types is valid: input is parsed once at the edge,
//! and all other code relies on it.

mod account;
mod address;
mod alias;
mod app_password;
mod authentication;
mod blob;
mod byte_budget;
mod clock;
mod connections;
mod delivery;
mod dns_changes;
mod domain;
mod draft;
mod envelope;
mod folder;
mod grants;
mod ids;
mod inbound;
mod mailbox_options;
mod named_values;
mod one_line;
mod page;
mod permission;
mod quota;
mod rules;
mod secret;
mod security_mark;
mod sent;
mod server_keys;
mod status;
mod submitted;
mod token;
mod violation;
mod visitor;
mod webhook;
mod zone_records;

pub use account::{Account, AccountChange, Credentials, NewAccount, PasswordRule, SecretText};
pub use address::{AddressError, DomainName, EmailAddress, NamedAddress};
pub use alias::{Alias, AliasChange, MembersRule, SendersRule};
pub use app_password::{AppPassword, AppPasswordValue, NewAppPassword, StoredAppPassword};
pub use authentication::{
    Authentication, AuthenticationResult, CheckedDomain, CheckedSignature, UnknownAuthenticationResult,
};
pub use blob::{Blob, BlobReader, BlobSource, Pieces};
pub use byte_budget::{ByteBudget, BytePermit, Full};
pub use clock::{Clock, Entropy, Timestamp, TimestampError, TimestampText};
pub use connections::{Connections, CountedConnection};
pub use delivery::{
    DeliveryEvent, DeliveryLogEntry, EnhancedCode, Evidence, FeedCursor, NoticeKind, Outcome, QueueId, QueueState,
    Reply, Scope, UnknownNoticeKind,
};
pub use dns_changes::{
    ChangeState, DnsProvider, ProviderAccount, RecordedChange, SetChange, TsigAlgorithm, TsigKey, UnknownChangeState,
    UnknownTsigAlgorithm, UpdateServer,
};
pub use domain::{DkimAlgorithm, DkimKey, DkimState, DkimSteps, Domain, DomainKey, NewDomain};
pub use draft::{AttachmentFields, Draft, DraftAttachment, DraftFields, DraftHeader, DraftLimits, RecipientKind};
pub use envelope::{Envelope, ReversePath};
pub use folder::{FolderName, FolderNameError};
pub use grants::{
    Admin, Denied, Grants, Identity, ManageAppPasswords, ManageDomain, ManageUsers, OwnDrafts, OwnRules, OwnTokens,
    ReadEvents, ReadMailbox, SendAs, ViewStats,
};
pub use ids::{AppPasswordId, MessageId, MessageIdError, RequestId, TokenId};
pub use inbound::{InboundEvent, InboundOutcome, InboundRefusal, ReceivedMail, RefusalStage};
pub use mailbox_options::{MailboxOptions, SaveSent, SaveSentError};
pub use one_line::OneLine;
pub use page::{Listed, Page};
pub use permission::{Permission, PermissionId, PermissionRecord};
pub use quota::Quota;
pub use rules::{
    ActionFields, Comparison, Condition, ConditionFields, ConditionValue, DamagedRules, FraudVerdict, Rule, RuleAction,
    RuleFacts, RuleFields, RuleSet, Ruling, TextField, Vacation,
};
pub use secret::{Secret, SharedSecret};
pub use security_mark::SecurityMark;
pub use sent::{SentMessage, SentRecipient, SentSummary};
pub use server_keys::{KeyDigests, KeyPublication};
pub use status::{MessageStatus, RecipientStatus, overall};
pub use submitted::{SubmittedFact, SubmittedMail, SubmittedReport};
pub use token::{NewToken, StoredToken, TokenHash, TokenKind, TokenRecord, TokenValue};
pub use violation::{Violation, Violations, shown_name};
pub use visitor::{ClientNetwork, InvalidClient, LoginProtocol, Visitor};
pub use webhook::{ReplayedEvents, WebhookAuthor, WebhookDisabled, WebhookId, WebhookSigning};
pub use zone_records::{InvalidRecord, RecordData, RecordKind, RecordSet, TlsaRecord};
