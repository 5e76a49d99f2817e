//! Events about domains, users, aliases and tokens. They contain no secrets: no password, hash, key or token value.

use mailapi_model::{
    AccountChange, Alias, AliasChange, AppPasswordId, DkimKey, DkimState, DomainName, EmailAddress, NewAccount,
    NewAppPassword, NewDomain, NewToken, SaveSent, Timestamp, TokenId,
};
use serde::Serialize;

use crate::body::body;
use crate::{EventId, EventType, FactNumber, NewEvent};

/// Returns `domain.created`.
#[must_use]
pub fn domain_created(domain: &NewDomain, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        domain: &'a str,
        active: bool,
        description: Option<&'a str>,
        creator_email: Option<&'a str>,
    }
    let data = Data {
        domain: domain.name.as_str(),
        active: domain.active,
        description: domain.description.as_deref(),
        creator_email: domain.creator_email.as_ref().map(EmailAddress::shown),
    };
    about_domain(EventType::DomainCreated, &domain.name, (domain.created_at, fact), &data)
}

/// Returns `domain.updated` with the changed values; an inner `None` removes the description.
#[must_use]
pub fn domain_updated(
    name: &DomainName,
    active: Option<bool>,
    description: Option<Option<&str>>,
    at: Timestamp,
    fact: FactNumber,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        domain: &'a str,
        changed: Changed<'a>,
    }
    #[derive(Serialize)]
    struct Changed<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        active: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<Option<&'a str>>,
    }
    let data = Data { domain: name.as_str(), changed: Changed { active, description } };
    about_domain(EventType::DomainUpdated, name, (at, fact), &data)
}

/// Returns an event with the domain as its only member: `domain.approved`, `domain.verified` or `domain.deleted`.
#[must_use]
pub fn domain_event(event_type: EventType, name: &DomainName, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        domain: &'a str,
    }
    about_domain(event_type, name, (at, fact), &Data { domain: name.as_str() })
}

/// A DNS record of a domain that is not right. The owner of the domain decides how much is published, so an event has a
/// limited part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenRecord {
    /// The kind, such as `MX`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The name in DNS.
    pub name: String,
    /// The value to publish.
    pub expected: String,
    /// The published values.
    pub found: Vec<String>,
    /// `missing` or `mismatch`.
    pub status: &'static str,
    /// The action to take.
    pub hint: String,
}

impl BrokenRecord {
    /// Maximum number of published values.
    pub const MAX_FOUND: usize = 10;
    /// Maximum number of characters of each; more than a key or a policy has.
    pub const MAX_CHARACTERS: usize = 1000;
}

/// Returns `domain.unverified`, with the records that other servers need and do not find.
#[must_use]
pub fn domain_unverified(name: &DomainName, records: &[BrokenRecord], at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        domain: &'a str,
        records: &'a [BrokenRecord],
    }
    about_domain(EventType::DomainUnverified, name, (at, fact), &Data { domain: name.as_str(), records })
}

/// Returns `domain.dkim_key_changed`, with the step that the key took and the record to publish.
#[must_use]
pub fn dkim_key_changed(
    name: &DomainName,
    key: &DkimKey,
    state: DkimState,
    at: Timestamp,
    fact: FactNumber,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        domain: &'a str,
        selector: &'a str,
        algorithm: &'static str,
        state: &'static str,
        dns_name: String,
        dns_value: String,
    }
    let data = Data {
        domain: name.as_str(),
        selector: &key.selector,
        algorithm: key.algorithm.as_str(),
        state: state.as_str(),
        dns_name: key.dns_name(name),
        dns_value: key.dns_value(),
    };
    about_domain(EventType::DomainDkimKeyChanged, name, (at, fact), &data)
}

/// Returns `user.created`.
#[must_use]
pub fn user_created(account: &NewAccount, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        email: &'a str,
        name: &'a str,
        quota_bytes: Option<u64>,
    }
    let data = Data { email: account.email.shown(), name: &account.name, quota_bytes: account.quota_bytes };
    about_user(EventType::UserCreated, &account.email, (account.created_at, fact), &data)
}

/// Returns `user.updated` with the changed values.
#[must_use]
pub fn user_updated(
    email: &EmailAddress,
    change: &AccountChange,
    active: Option<bool>,
    at: Timestamp,
    fact: FactNumber,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        email: &'a str,
        changed: Changed<'a>,
    }
    #[derive(Serialize)]
    struct Changed<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        quota_bytes: Option<Option<u64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        save_sent: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        active: Option<bool>,
    }
    let save_sent = change.save_sent.map(SaveSent::as_str);
    let changed = Changed { name: change.name.as_deref(), quota_bytes: change.quota_bytes, save_sent, active };
    about_user(EventType::UserUpdated, email, (at, fact), &Data { email: email.shown(), changed })
}

/// Returns an event with the address as its only member: `user.deleted` or `login.locked`.
#[must_use]
pub fn user_event(event_type: EventType, email: &EmailAddress, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        email: &'a str,
    }
    about_user(event_type, email, (at, fact), &Data { email: email.shown() })
}

/// Returns `alias.created`.
#[must_use]
pub fn alias_created(alias: &Alias, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        address: &'a str,
        members: Vec<&'a str>,
        senders: Vec<&'a str>,
        active: bool,
    }
    let Alias { address, members, senders, active, created_at } = alias;
    let (members, senders) = (shown(members), shown(senders));
    let data = Data { address: address.shown(), members, senders, active: *active };
    about_alias(EventType::AliasCreated, address, (*created_at, fact), &data)
}

/// Returns `alias.updated` with the changed values.
#[must_use]
pub fn alias_updated(address: &EmailAddress, change: &AliasChange, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        address: &'a str,
        changed: Changed<'a>,
    }
    #[derive(Serialize)]
    struct Changed<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        members: Option<Vec<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        senders: Option<Vec<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        active: Option<bool>,
    }
    let AliasChange { members, senders, active } = change;
    let (members, senders) = (members.as_deref().map(shown), senders.as_deref().map(shown));
    let changed = Changed { members, senders, active: *active };
    about_alias(EventType::AliasUpdated, address, (at, fact), &Data { address: address.shown(), changed })
}

/// Returns `alias.deleted`.
#[must_use]
pub fn alias_deleted(address: &EmailAddress, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        address: &'a str,
    }
    about_alias(EventType::AliasDeleted, address, (at, fact), &Data { address: address.shown() })
}

/// Returns `user.app_password_created`, without the value, as the two parts around its id ([`token_created`]).
#[must_use]
pub fn app_password_created(new: &NewAppPassword, fact: FactNumber) -> (NewEvent, String) {
    #[derive(Serialize)]
    struct Data<'a> {
        app_password_id: i64,
        email: &'a str,
        name: &'a str,
    }
    let data = Data { app_password_id: 0, email: new.email.shown(), name: &new.name };
    let event = about_user(EventType::UserAppPasswordCreated, &new.email, (new.created_at, fact), &data);
    around_id(event, "\"data\":{\"app_password_id\":0")
}

/// Returns `user.app_password_revoked`.
#[must_use]
pub fn app_password_revoked(email: &EmailAddress, id: AppPasswordId, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        app_password_id: i64,
        email: &'a str,
    }
    let data = Data { app_password_id: id.0, email: email.shown() };
    about_user(EventType::UserAppPasswordRevoked, email, (at, fact), &data)
}

/// Splits the body of an event after the placeholder of an id, which ends with its digit 0.
fn around_id(mut event: NewEvent, placeholder: &str) -> (NewEvent, String) {
    let place = event.body.find(placeholder).map_or(event.body.len(), |start| start + placeholder.len());
    let rest = event.body.split_off(place);
    event.body.pop();
    (event, rest)
}

/// Returns `token.created`, without the token's value. The database assigns the token's id, so the body has two parts;
/// the id belongs between them.
#[must_use]
pub fn token_created(token: &NewToken) -> (NewEvent, String) {
    #[derive(Serialize)]
    struct Data<'a> {
        token_id: i64,
        prefix: &'a str,
        #[serde(rename = "type")]
        kind: &'static str,
        email: Option<&'a str>,
        name: &'a str,
        expires_at: Option<String>,
    }
    /// The placeholder of the id. No text of a caller precedes it, so its first occurrence is this one.
    const ID: &str = "\"data\":{\"token_id\":0";
    let data = Data {
        token_id: 0,
        prefix: &token.prefix,
        kind: token.kind.as_str(),
        email: token.email.as_ref().map(EmailAddress::shown),
        name: &token.name,
        expires_at: token.expires_at.map(|end| end.to_string()),
    };
    let id = EventId::of_fact(token.created_at, &[b"token.created", token.hash.as_bytes()]);
    around_id(about(EventType::TokenCreated, id, token.email.as_ref(), &data), ID)
}

/// Returns `token.updated` or `token.revoked`.
#[must_use]
pub fn token_event(event_type: EventType, id: TokenId, at: Timestamp, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data {
        token_id: i64,
    }
    let event_id = EventId::of_fact(at, &[event_type.as_str().as_bytes(), &id.0.to_be_bytes(), &fact.to_bytes()]);
    about(event_type, event_id, None, &Data { token_id: id.0 })
}

type At = (Timestamp, FactNumber);

fn about_domain(event_type: EventType, name: &DomainName, at: At, data: &impl Serialize) -> NewEvent {
    let id = id_of(event_type, name.as_str(), at);
    NewEvent { domain: Some(name.clone()), ..about(event_type, id, None, data) }
}

fn id_of(event_type: EventType, subject: &str, (at, fact): At) -> EventId {
    EventId::of_fact(at, &[event_type.as_str().as_bytes(), subject.as_bytes(), &fact.to_bytes()])
}

fn about_user(event_type: EventType, email: &EmailAddress, at: At, data: &impl Serialize) -> NewEvent {
    let id = id_of(event_type, email.as_str(), at);
    about(event_type, id, Some(email), data)
}

/// An alias has a domain and no mailbox of its own.
fn about_alias(event_type: EventType, address: &EmailAddress, at: At, data: &impl Serialize) -> NewEvent {
    let id = id_of(event_type, address.as_str(), at);
    NewEvent { domain: Some(address.domain()), ..about(event_type, id, None, data) }
}

fn shown(addresses: &[EmailAddress]) -> Vec<&str> {
    addresses.iter().map(EmailAddress::shown).collect()
}

fn about(event_type: EventType, id: EventId, email: Option<&EmailAddress>, data: &impl Serialize) -> NewEvent {
    NewEvent {
        id,
        event_type,
        domain: email.map(EmailAddress::domain),
        mailbox: email.cloned(),
        message_id: None,
        subject_at: id.at(),
        body: body(id, event_type, data),
    }
}

#[cfg(test)]
mod tests {
    use mailapi_model::{TokenKind, TokenValue};
    use serde_json::{Value, json};

    use super::*;

    const FACT: FactNumber = FactNumber::new(7, 1);

    #[test]
    fn two_changes_of_one_millisecond_are_two_events() {
        let (email, at) = ("ann@example.org".parse().unwrap(), Timestamp::from_seconds(1_790_000_000));
        let changed = |fact| user_updated(&email, &AccountChange::default(), Some(true), at, fact).id;
        assert_eq!(changed(FACT), changed(FACT));
        assert_ne!(changed(FACT), changed(FactNumber::new(7, 2)));
        assert_ne!(changed(FACT), changed(FactNumber::new(8, 1)));
    }

    #[test]
    fn the_id_of_a_token_belongs_between_two_parts() {
        let value = TokenValue::from_caller("mapi_secret");
        let token = NewToken {
            hash: value.hash(),
            prefix: "mapi_s".to_owned(),
            kind: TokenKind::User,
            email: Some("ann@example.org".parse().unwrap()),
            name: "\"data\":{\"token_id\":0".to_owned(),
            is_session: false,
            created_at: Timestamp::from_seconds(1_790_000_000),
            expires_at: None,
        };
        let (event, rest) = token_created(&token);
        let body: Value = serde_json::from_str(&format!("{}17{rest}", event.body)).unwrap();
        assert_eq!(
            body["data"],
            json!({
                "token_id": 17, "prefix": "mapi_s", "type": "user", "email": "ann@example.org", "name": token.name,
                "expires_at": null,
            })
        );
    }

    #[test]
    fn an_update_names_what_changed_and_nothing_else() {
        let (name, at) = ("example.org".parse().unwrap(), Timestamp::from_seconds(1_790_000_000));
        let changed = |event: NewEvent| serde_json::from_str::<Value>(&event.body).unwrap()["data"]["changed"].clone();
        assert_eq!(changed(domain_updated(&name, None, Some(None), at, FACT)), json!({"description": null}));
        assert_eq!(changed(domain_updated(&name, Some(true), None, at, FACT)), json!({"active": true}));
        let (email, change) = ("ann@example.org".parse().unwrap(), AccountChange::default());
        assert_eq!(changed(user_updated(&email, &change, Some(false), at, FACT)), json!({"active": false}));
        let members = AliasChange { members: Some(vec![email.clone()]), ..AliasChange::default() };
        assert_eq!(changed(alias_updated(&email, &members, at, FACT)), json!({"members": ["ann@example.org"]}));
    }
}
