//! Records as JSON in the shapes of the API, for the command line.

use mailapi_model::{
    Alias, AppPassword, AppPasswordValue, DkimKey, Domain, DomainKey, DomainName, RecordedChange, RuleFields, RuleSet,
    Secret, TokenRecord, TokenValue, Violations,
};
use mailapi_service::Caller;
use mailapi_service::domains::{AppliedPlan, AttemptedChange, DnsPlan, DnsSetup, DomainPosture};
use mailapi_service::queue::QueueEntry;
use mailapi_service::users::User;
use mailapi_service::webhooks::Webhook;
use serde::Serialize;

use crate::routes::aliases::AliasRecord;
use crate::routes::domains::DomainRecord;
use crate::routes::domains::dkim::DkimRecord;
use crate::routes::domains::dns::DomainDns;
use crate::routes::domains::posture::DomainSecured;
use crate::routes::domains::publishing::{DnsApplied, DnsRolledBack, PlanRecord, RecordedDnsChange};
use crate::routes::queue::QueuedMessageInfo;
use crate::routes::tokens::TokenInfo;
use crate::routes::tokens::create::TokenCreated;
use crate::routes::users::UserRecord;
use crate::routes::users::app_passwords::AppPasswordInfo;
use crate::routes::users::app_passwords::create::AppPasswordCreated;
use crate::routes::users::rules::RulesShown;
use crate::routes::users::rules::body::rules_in;
use crate::routes::webhooks::WebhookInfo;
use crate::routes::webhooks::create::WebhookCreated;

/// A user record.
#[must_use]
pub fn user_json(user: User) -> String {
    text(&UserRecord::from(user))
}

/// A list of records.
#[must_use]
pub fn users_json(users: Vec<User>) -> String {
    text(&users.into_iter().map(UserRecord::from).collect::<Vec<_>>())
}

/// An alias record.
#[must_use]
pub fn alias_json(alias: Alias) -> String {
    text(&AliasRecord::from(alias))
}

/// A list of records.
#[must_use]
pub fn aliases_json(aliases: Vec<Alias>) -> String {
    text(&aliases.into_iter().map(AliasRecord::from).collect::<Vec<_>>())
}

/// The rules of a mailbox.
#[must_use]
pub fn rules_json(rules: &RuleSet) -> String {
    text(&RulesShown::from(rules))
}

/// Reads rules in the shape of the API.
///
/// # Errors
/// The violations, for members such as `rules[0].name`.
pub fn rules_from_json(json: &[u8]) -> Result<Vec<RuleFields>, Violations> {
    rules_in(json)
}

/// App passwords, without values.
#[must_use]
pub fn app_passwords_json(app_passwords: Vec<AppPassword>) -> String {
    text(&app_passwords.into_iter().map(AppPasswordInfo::from).collect::<Vec<_>>())
}

/// A new app password with its value.
#[must_use]
pub fn created_app_password_json(app_password: AppPassword, value: &AppPasswordValue) -> String {
    text(&AppPasswordCreated::new(app_password, value))
}

/// A domain record with the DNS record of its DKIM key.
#[must_use]
pub fn domain_json(domain: Domain, key: Option<&DkimKey>) -> String {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        domain: DomainRecord,
        dkim: Option<Published>,
    }
    #[derive(Serialize)]
    struct Published {
        dns_name: String,
        dns_type: &'static str,
        dns_value: String,
    }
    let published =
        |key: &DkimKey| Published { dns_name: key.dns_name(&domain.name), dns_type: "TXT", dns_value: key.dns_value() };
    let dkim = key.map(published);
    text(&Shown { domain: domain.into(), dkim })
}

/// The DKIM keys of a domain; null if it has none.
#[must_use]
pub fn dkim_json(domain: &DomainName, keys: Vec<DomainKey>) -> String {
    text(&DkimRecord::of(domain, keys))
}

/// A list of records.
#[must_use]
pub fn domains_json(domains: Vec<Domain>) -> String {
    text(&domains.into_iter().map(DomainRecord::from).collect::<Vec<_>>())
}

/// The DNS records of a domain.
#[must_use]
pub fn domain_dns_json(setup: DnsSetup) -> String {
    text(&DomainDns::from(setup))
}

/// How well the records of a domain protect it.
#[must_use]
pub fn domain_security_json(posture: DomainPosture) -> String {
    text(&DomainSecured::from(posture))
}

/// The changes that the records of a domain need.
#[must_use]
pub fn dns_plan_json(plan: DnsPlan) -> String {
    text(&PlanRecord::from(plan))
}

/// What became of a plan.
#[must_use]
pub fn dns_applied_json(applied: AppliedPlan) -> String {
    text(&DnsApplied::from(applied))
}

/// What became of the way back.
#[must_use]
pub fn dns_rolled_back_json(changes: Vec<AttemptedChange>) -> String {
    text(&DnsRolledBack::from(changes))
}

/// Changes that were sent to a provider.
#[must_use]
pub fn dns_changes_json(changes: Vec<RecordedChange>) -> String {
    text(&changes.into_iter().map(RecordedDnsChange::from).collect::<Vec<_>>())
}

/// A token record, without the value.
#[must_use]
pub fn token_json(token: TokenRecord) -> String {
    text(&TokenInfo::from(token))
}

/// Token records, without values.
#[must_use]
pub fn tokens_json(tokens: Vec<TokenRecord>) -> String {
    text(&tokens.into_iter().map(TokenInfo::from).collect::<Vec<_>>())
}

/// A new token with its value.
#[must_use]
pub fn created_token_json(token: TokenRecord, value: &TokenValue) -> String {
    text(&TokenCreated::new(token, value))
}

/// Webhook records, without secrets.
#[must_use]
pub fn webhooks_json(webhooks: Vec<Webhook>) -> String {
    text(&webhooks.into_iter().map(WebhookInfo::for_admin).collect::<Vec<_>>())
}

/// A message in the queue.
#[must_use]
pub fn queued_message_json(entry: QueueEntry) -> String {
    text(&QueuedMessageInfo::from(entry))
}

/// Messages in the queue.
#[must_use]
pub fn queue_json(entries: Vec<QueueEntry>) -> String {
    text(&entries.into_iter().map(QueuedMessageInfo::from).collect::<Vec<_>>())
}

/// A new webhook with its secret.
#[must_use]
pub fn created_webhook_json(webhook: Webhook, secret: Option<Secret<String>>, caller: &Caller) -> String {
    text(&WebhookCreated::new(webhook, secret, caller))
}

fn text(record: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(record).expect("records have text keys and no other failure");
    format!("{text}\n")
}
