//! JSON shapes of plans and changes.

use mailapi_model::{ChangeState, RecordSet, SetChange, TsigAlgorithm};
use mailapi_service::domains::{
    AttemptedChange, ChangeAction, DnsPlan, PlanConflict, PlannedChange, ServerState, ServerView,
};
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

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
    /// `add`: adds a record, all others stay; `replace`: replaces or removes records.
    DnsChangeActionName: ChangeAction::ALL.map(ChangeAction::as_str);
    /// `pending`: the answer of the name server is not known yet; `applied`; `refused`: nothing was changed; `rolled_back`.
    DnsChangeStateName: ChangeState::ALL.map(ChangeState::as_str);
    /// `seen`: it has all records; `waiting`: it has others; `unknown`: it does not answer.
    NameServerStateName: ServerState::ALL.map(ServerState::as_str);
    /// Algorithm of a TSIG key.
    TsigAlgorithmName: TsigAlgorithm::ALL.map(TsigAlgorithm::as_str);
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
    /// Record type: `MX`, `TXT`, `SRV` or `CNAME`.
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
