//! The shapes of events in the document. The events themselves are composed and stored by `events` and `store`.

use utoipa::ToSchema;

use crate::shape::{
    AuthenticationResultName, DkimAlgorithmName, DkimStateName, EventTypeName, Moment, RecipientKindName, RecordState,
    SignCode, VerdictName,
};

/// An event, with the same bytes in every channel.
#[derive(ToSchema)]
#[schema(as = Event)]
#[expect(dead_code, reason = "describes events in the document")]
pub(crate) struct Event {
    /// Event identifier, the same in every channel. Use it to recognise repeated events.
    #[schema(example = "evt_01m7w78fqwemea5qcy6jn7hx3x")]
    id: String,
    /// Event type.
    #[schema(value_type = EventTypeName)]
    r#type: String,
    /// Time of the event.
    timestamp: Moment,
    /// Members that depend on the type.
    data: EventData,
}

/// The members of all types; each type has some of them. New versions may add members.
#[derive(ToSchema)]
#[schema(as = EventData)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventData {
    /// With `message.*` about sent messages: message identifier; null for a message from a mail program.
    #[schema(format = "uuid")]
    message_id: Option<String>,
    /// With `message.received`: the mailbox that received the message. With `message.rejected`: the recipient. With
    /// other `message.*`: the mailbox whose token or login sent it; null for an admin's API token.
    mailbox: Option<String>,
    /// With `message.received` and `message.rejected`: the domain of the mailbox. With other `message.*`: the sender's
    /// domain. With `domain.*`: the domain.
    domain: Option<String>,
    /// With `message.received`: address of the first author; empty if missing, null if the message could not be read.
    /// With other `message.*`: sender address. With `delivery.gap`: time of the last report before the gap; null if there
    /// was none.
    from: Option<String>,
    /// With `message.received`: name of the first author; null if missing.
    from_name: Option<String>,
    /// With `message.rejected`: address of the client; null if unknown.
    client: Option<String>,
    /// With `message.rejected`: `rcpt` if one recipient was refused, `data` if the message was.
    stage: Option<String>,
    /// With `message.rejected`: number of refusals without an event since the last such event.
    left_out: Option<u64>,
    /// With `message.received`: folder; null if the message could not be read.
    folder: Option<String>,
    /// With `message.received`: UID in the folder; null if the message could not be read.
    uid: Option<u32>,
    /// With `message.received`: subject; null if the message could not be read.
    subject: Option<String>,
    /// With `message.received`: beginning of the text, at most 200 characters; null if the message could not be read.
    snippet: Option<String>,
    /// With `message.received`: whether the message has attachments; null if it could not be read.
    has_attachments: Option<bool>,
    /// With `message.received`: results of the checks; null if the mail was not checked.
    authentication: Option<EventAuthentication>,
    /// With `message.received`: what the security analysis found; null if the message was not analyzed.
    security: Option<EventSecurity>,
    /// With `message.*` about sent messages: reserved for tags of the message; empty.
    tags: Option<Vec<String>>,
    /// With `message.*` about sent messages: reserved for the sender's own values; empty.
    metadata: Option<EventMetadata>,
    /// With `message.*`: queue identifier at the mail server; null if there is none.
    queue_id: Option<String>,
    /// With `message.accepted`: the recipients that the mail server accepted.
    recipients: Option<Vec<EventRecipient>>,
    /// With `message.accepted` and `message.received`: size of the message in bytes; null if unknown.
    size: Option<u64>,
    /// The recipient. With `message.received`: the address that the message was sent to, such as an alias; null if it is not
    /// known.
    recipient: Option<EventRecipient>,
    /// With events about one recipient, and with `message.rejected`: reply of the mail server; null if there was none.
    smtp: Option<EventReply>,
    /// With events about one recipient: mail server that was tried; null if there was none. Absent with `evidence`
    /// `submission`.
    relay: Option<String>,
    /// With events about one recipient: milliseconds from the acceptance of the message to the end of the attempt.
    /// Absent with `evidence` `submission`.
    delay_ms: Option<u64>,
    /// Source of the event: `submission` (refused when the message was submitted), `mail_server` (a report of the mail
    /// server) or `returned_mail` (a bounce that arrived as mail).
    evidence: Option<String>,
    /// With `message.delivered`: `mailbox` of this server, or `next_hop`, which is responsible for the message now.
    delivered_to: Option<String>,
    /// With `message.deferred`: number of the attempt.
    attempt: Option<u64>,
    /// With `message.deferred`: when the built-in mail server tries again at the earliest; null if the mail server does
    /// not report it.
    next_attempt_at: Option<Moment>,
    /// With `message.notice`: what the other server returned.
    notice: Option<EventNotice>,
    /// With `message.bounced`: kind and origin of the bounce.
    bounce: Option<EventBounce>,
    /// With `message.failed`: the reason, as text for people. With `webhook.disabled`: `failures`, `gone` or
    /// `permission`. With `delivery.gap`: the cause of the loss, as one word.
    reason: Option<String>,
    /// With `domain.created`: whether the domain may send. With `alias.created`: whether the alias accepts mail.
    active: Option<bool>,
    /// With `domain.created`: description.
    description: Option<String>,
    /// With `domain.created`: the user who signed up with the domain; null if an admin created it.
    creator_email: Option<String>,
    /// With `domain.unverified`: the required records that are not right.
    records: Option<Vec<EventBrokenRecord>>,
    /// With `domain.dkim_key_changed`: selector of the key.
    selector: Option<String>,
    /// With `domain.dkim_key_changed`: signature algorithm.
    #[schema(value_type = Option<DkimAlgorithmName>)]
    algorithm: Option<String>,
    /// With `domain.dkim_key_changed`: the step that the key took.
    #[schema(value_type = Option<DkimStateName>)]
    state: Option<String>,
    /// With `domain.dkim_key_changed`: name of the DNS record.
    dns_name: Option<String>,
    /// With `domain.dkim_key_changed`: value of the DNS record.
    dns_value: Option<String>,
    /// With `user.*` and `login.locked`: the address. With `token.created`: the mailbox of the token; null for an
    /// admin's API token.
    email: Option<String>,
    /// With `user.created`, `user.app_password_created` and `token.created`: name.
    name: Option<String>,
    /// With `user.created`: quota in bytes; null without a limit.
    quota_bytes: Option<u64>,
    /// With `alias.*`: address of the alias.
    address: Option<String>,
    /// With `alias.created`: addresses that receive the mail.
    members: Option<Vec<String>>,
    /// With `alias.created`: users who may send from the alias.
    senders: Option<Vec<String>>,
    /// With `domain.updated`, `user.updated` and `alias.updated`: the new values of the members that changed.
    changed: Option<EventChange>,
    /// With `user.app_password_created` and `user.app_password_revoked`: number of the app password.
    app_password_id: Option<i64>,
    /// With `token.*`: number of the token.
    token_id: Option<i64>,
    /// With `token.created`: the beginning of the token's value.
    prefix: Option<String>,
    /// With `token.created`: `admin` or `user`.
    r#type: Option<String>,
    /// With `token.created`: when the token expires; null if never.
    expires_at: Option<Moment>,
    /// With `webhook.disabled`: number of the webhook.
    webhook_id: Option<i64>,
    /// With `webhook.disabled`: URL of the receiver.
    url: Option<String>,
    /// With `delivery.gap`: source of the reports.
    feed: Option<String>,
    /// With `delivery.gap`: time of the first report after the gap, or the time at which the gap was noticed.
    to: Option<Moment>,
}

/// A DNS record that is not right.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventBrokenRecord {
    /// Kind: `MX`, `SPF`, `DKIM` or `DMARC`.
    r#type: String,
    /// Name of the record.
    name: String,
    /// Value to publish.
    expected: String,
    /// Published values: at most ten, and the first 1,000 characters of each.
    found: Vec<String>,
    /// `missing` or `mismatch`.
    #[schema(value_type = RecordState)]
    status: String,
    /// Action to take.
    hint: String,
}

/// The new values of the members that changed; other members are absent.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventChange {
    /// Whether the domain may send, the user may log in, or the alias accepts mail.
    active: Option<bool>,
    /// Addresses that receive the mail of the alias.
    members: Option<Vec<String>>,
    /// Users who may send from the alias.
    senders: Option<Vec<String>>,
    /// Description of the domain; null if it was removed.
    description: Option<String>,
    /// Name of the user.
    name: Option<String>,
    /// Quota of the user in bytes; null without a limit.
    quota_bytes: Option<u64>,
    /// Which messages of the user are copied to `Sent`: `off`, `api` or `all`.
    save_sent: Option<String>,
}

/// Reserved for the sender's own values.
#[derive(ToSchema)]
struct EventMetadata {}

/// A recipient of a message.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventRecipient {
    /// Recipient address.
    email: String,
    /// Recipient list that named the address first; null for a message from a mail program. Absent with
    /// `message.received`.
    #[schema(value_type = Option<RecipientKindName>)]
    r#type: Option<String>,
    /// Address that the mail server tried for an alias or a forwarding address, if it differs.
    r#final: Option<String>,
}

/// A reply of a mail server.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventReply {
    /// Reply code, such as 550; null if unknown.
    #[schema(required)]
    code: Option<u16>,
    /// Enhanced status code (RFC 3463), such as `5.1.1`; null if unknown.
    #[schema(required)]
    enhanced: Option<String>,
    /// Text of the reply, at most 500 characters.
    response: String,
}

/// A bounce.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventBounce {
    /// `permanent`, `expired` (temporary failures until the mail server gave up) or `policy`.
    class: String,
    /// `smtp` or `returned_mail`.
    via: String,
}

/// Mail of another server about a sent message.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventNotice {
    /// `delayed`, `delivered`, `relayed`, `expanded` or `other`.
    kind: String,
    /// Domain of its author; null if unknown.
    #[schema(required)]
    server: Option<String>,
    /// Beginning of its text, at most 1,000 characters.
    text: String,
}

/// Results of the checks of received mail, in the words of RFC 8601.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventAuthentication {
    /// Whether the client may send for the domain of the reverse-path (RFC 7208).
    spf: EventCheckedDomain,
    /// Results of at most eight signatures (RFC 6376), best first; empty without a signature.
    dkim: Vec<EventCheckedSignature>,
    /// Whether the author's domain confirms the message (RFC 9989).
    dmarc: EventCheckedDomain,
    /// Whether the chain of forwarders is unbroken (RFC 8617).
    arc: EventCheckedChain,
}

/// What the security analysis found in received mail.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventSecurity {
    /// What the signs mean together.
    #[schema(value_type = VerdictName)]
    verdict: String,
    /// The signs that count, the most severe first; at most five.
    signs: Vec<SignCode>,
}

/// The result of a check, and its domain.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventCheckedDomain {
    /// Result.
    #[schema(value_type = AuthenticationResultName)]
    result: String,
    /// Domain; null if the message does not have it.
    #[schema(required)]
    domain: Option<String>,
}

/// The result for a signature.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventCheckedSignature {
    /// Result.
    #[schema(value_type = AuthenticationResultName)]
    result: String,
    /// Signing domain; null if the signature cannot be read.
    #[schema(required)]
    domain: Option<String>,
    /// Selector of the key; null if the signature cannot be read.
    #[schema(required)]
    selector: Option<String>,
}

/// The result for the chain of forwarders.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes events in the document")]
struct EventCheckedChain {
    /// Result.
    #[schema(value_type = AuthenticationResultName)]
    result: String,
}
