//! JSON shapes of plans and changes.

use mailapi_model::{ChangeState, RecordSet, SecretText, SetChange, TsigAlgorithm, Violations};
use mailapi_service::domains::{
    AttemptedChange, ChangeAction, DnsPlan, PlanConflict, PlannedChange, ServerState, ServerView,
};
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::request_body::{Schemas, Text, reference};
use crate::shape::checked;

/// Declares names in the document.
macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident: $all:expr;)+) => {
        $(
            $(#[doc = $doc])+
            pub(super) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let text = ObjectBuilder::new().schema_type(Type::String);
                    text.description(Some(concat!($($doc),+).trim())).enum_values(Some($all)).into()
                }
            }

            impl ToSchema for $name {}
        )+
    };
}

names! {
    /// `add`: adds a record, all others stay; `replace`: replaces records; `remove`: removes records.
    DnsChangeActionName: ChangeAction::ALL.map(ChangeAction::as_str);
    /// `pending`: the answer of the provider is not known yet; `applied`; `refused`: nothing was changed; `rolled_back`.
    DnsChangeStateName: ChangeState::ALL.map(ChangeState::as_str);
    /// `seen`: it has all records; `waiting`: it has others; `unknown`: it does not answer.
    NameServerStateName: ServerState::ALL.map(ServerState::as_str);
    /// Algorithm of a TSIG key.
    TsigAlgorithmName: TsigAlgorithm::ALL.map(TsigAlgorithm::as_str);
}

impl Text for TsigAlgorithmName {
    type Read = TsigAlgorithm;

    fn inline() -> RefOr<Schema> {
        <Self as PartialSchema>::schema()
    }

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        reference::<Self>(schemas)
    }

    fn parse(field: &str, text: String) -> Result<TsigAlgorithm, Violations> {
        checked(field, text.parse())
    }
}

/// Declares strings of requests that are described here, and checked where they are used.
macro_rules! described {
    ($($(#[doc = $doc:literal])+ $name:ident => $read:ty: $pattern:expr;)+) => {
        $(
            $(#[doc = $doc])+
            pub(super) struct $name;

            impl Text for $name {
                type Read = $read;

                fn inline() -> RefOr<Schema> {
                    ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern)).into()
                }

                fn parse(_: &str, text: String) -> Result<$read, Violations> {
                    Ok(text.into())
                }
            }
        )+
    };
}

described! {
    /// A host or an address, with or without a port.
    NameServerText => String: r"^[A-Za-z0-9.:\[\]-]{1,253}$";
    /// Name of a provider, as `GET /dns/providers` lists it.
    ProviderNameText => String: r"^[a-z0-9_]{1,40}$";
    /// Name of a TSIG key.
    KeyNameText => String: r"^[A-Za-z0-9]([A-Za-z0-9-]{0,60}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,60}[A-Za-z0-9])?){0,2}$";
    /// Secret of a TSIG key, in base64.
    KeySecretText => SecretText: r"^([A-Za-z0-9+/]{4}){1,80}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
}

/// All records of one name and type.
#[derive(Serialize, ToSchema)]
pub(super) struct DnsRecordSet {
    /// Time to live in seconds.
    ttl: u32,
    /// The records in the syntax of master files (RFC 1035). Empty if there are none.
    records: Vec<String>,
}

impl From<RecordSet> for DnsRecordSet {
    fn from(set: RecordSet) -> Self {
        Self { ttl: set.ttl, records: set.records.iter().map(ToString::to_string).collect() }
    }
}

/// A change of the records of one name and type.
#[derive(Serialize, ToSchema)]
pub(super) struct DnsSetChange {
    /// Name in DNS, without the final dot.
    name: String,
    /// Record type: `MX`, `TXT`, `SRV`, `CNAME` or `TLSA`.
    r#type: &'static str,
    /// The records before.
    before: DnsRecordSet,
    /// The records afterwards.
    after: DnsRecordSet,
}

impl From<SetChange> for DnsSetChange {
    fn from(change: SetChange) -> Self {
        let SetChange { name, kind, before, after, .. } = change;
        Self { name, r#type: kind.as_str(), before: before.into(), after: after.into() }
    }
}

/// A planned change.
#[derive(Serialize, ToSchema)]
pub(super) struct PlannedDnsChange {
    /// What happens to published records.
    #[schema(value_type = DnsChangeActionName)]
    action: &'static str,
    /// What the record is for, such as `MX` or `SPF`.
    purpose: &'static str,
    #[serde(flatten)]
    change: DnsSetChange,
    /// Why.
    reason: String,
}

impl From<PlannedChange> for PlannedDnsChange {
    fn from(planned: PlannedChange) -> Self {
        let PlannedChange { purpose, action, change, reason } = planned;
        Self { action: action.as_str(), purpose, change: change.into(), reason }
    }
}

/// A wanted record that is not changed.
#[derive(Serialize, ToSchema)]
pub(super) struct DnsConflict {
    /// What the record is for.
    purpose: &'static str,
    /// Record type.
    r#type: &'static str,
    /// Name in DNS.
    name: String,
    /// The wanted value; null if it is unknown.
    #[schema(required)]
    value: Option<String>,
    /// Published values.
    found: Vec<String>,
    /// Why the record is not changed.
    reason: String,
    /// Whether a plan with this purpose in `replace` changes it.
    replaceable: bool,
}

impl From<PlanConflict> for DnsConflict {
    fn from(conflict: PlanConflict) -> Self {
        let PlanConflict { purpose, record_type, name, value, found, reason, is_replaceable } = conflict;
        Self { purpose, r#type: record_type, name, value, found, reason, replaceable: is_replaceable }
    }
}

/// The changes that the records of a domain need.
#[derive(Serialize, ToSchema)]
#[schema(as = DnsPlan, example = json!({
    "success": true, "domain": "example.test", "plan_id": "5f2c4c0c6f0e4d3b9a1d2e3f4a5b6c7d", "zone": "example.test",
    "name_servers": ["ns1.example.test"],
    "changes": [{
        "action": "add", "purpose": "MX", "name": "example.test", "type": "MX", "before": { "ttl": 0, "records": [] },
            "after": { "ttl": 3600, "records": ["10 mx.example.test."] },
        "reason": "Add the record; without it mail for the domain does not reach this server."
    }],
    "conflicts": []
}))]
pub(crate) struct PlanRecord {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Names this plan with all its changes; `apply` takes it.
    plan_id: String,
    /// The zone that has the records.
    zone: String,
    /// The name servers of the zone.
    name_servers: Vec<String>,
    /// The changes, in the order in which they are made.
    changes: Vec<PlannedDnsChange>,
    /// The wanted records that are not changed.
    conflicts: Vec<DnsConflict>,
}

impl From<DnsPlan> for PlanRecord {
    fn from(plan: DnsPlan) -> Self {
        Self {
            success: true,
            domain: plan.domain.shown().to_owned(),
            plan_id: plan.plan_id,
            zone: plan.zone,
            name_servers: plan.name_servers,
            changes: plan.changes.into_iter().map(Into::into).collect(),
            conflicts: plan.conflicts.into_iter().map(Into::into).collect(),
        }
    }
}

/// A change that was tried.
#[derive(Serialize, ToSchema)]
pub(super) struct AttemptedDnsChange {
    #[serde(flatten)]
    change: DnsSetChange,
    /// What became of it; null if it was not tried, because one before it failed.
    #[schema(value_type = Option<DnsChangeStateName>, required)]
    state: Option<&'static str>,
    /// Why it was not applied; null if it was.
    #[schema(required)]
    error: Option<String>,
}

impl From<AttemptedChange> for AttemptedDnsChange {
    fn from(attempted: AttemptedChange) -> Self {
        let AttemptedChange { change, state, error } = attempted;
        Self { change: change.into(), state: state.map(ChangeState::as_str), error }
    }
}

/// A name server of the zone.
#[derive(Serialize, ToSchema)]
pub(super) struct NameServerView {
    /// Name of the server.
    server: String,
    /// Whether it has the records.
    #[schema(value_type = NameServerStateName)]
    state: &'static str,
    /// Why that is unknown; null otherwise.
    #[schema(required)]
    error: Option<String>,
}

impl From<ServerView> for NameServerView {
    fn from(view: ServerView) -> Self {
        Self { server: view.server, state: view.state.as_str(), error: view.error }
    }
}
