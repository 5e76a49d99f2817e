//! `GET /domains/{domain}/dns/plan`: the changes that the records of a domain need.

use std::fmt::Write as _;

use mailapi_model::{
    DkimKey, DnsProvider, DomainKey, DomainName, KeyDigests, RecordData, RecordKind, RecordSet, SetChange, TlsaRecord,
};
use sha2::{Digest, Sha256};

use super::PublishError;
use super::primary::{Current, Primary, PrimaryDns};
use crate::domains::DomainError;
use crate::domains::dns::{Publication, WantedRecord, wanted_records};
use crate::domains::server_keys::{mail_ports, record_name};
use crate::domains::verify::{Context, TIME, TimedDns, extended_spf, in_use_and_retired, is_spf, publishes};
use crate::{Caller, Service};

/// Octets of a plan's id: enough that two plans never share one.
const ID_OCTETS: usize = 16;

/// Maximum number of retired keys whose records a plan looks for, newest first.
const RETIRED: usize = 10;

/// The changes that the records of a domain need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsPlan {
    /// The domain.
    pub domain: DomainName,
    /// Names the plan and all its contents: an equal plan has the same one.
    pub plan_id: String,
    /// The zone that has the records.
    pub zone: String,
    /// The name servers of the zone.
    pub name_servers: Vec<String>,
    /// The changes, in the order in which they are made.
    pub changes: Vec<PlannedChange>,
    /// The wanted records that are not changed.
    pub conflicts: Vec<PlanConflict>,
}

/// A change of the records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange {
    /// The purpose of the record; see [`WantedRecord::purpose`].
    pub purpose: &'static str,
    /// What happens to published records.
    pub action: ChangeAction,
    /// The records before and afterwards.
    pub change: SetChange,
    /// Why.
    pub reason: String,
}

/// What a change does with published records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAction {
    /// It adds a record; all others stay.
    Add,
    /// It replaces records.
    Replace,
    /// It removes records.
    Remove,
}

impl ChangeAction {
    /// Every action.
    pub const ALL: [Self; 3] = [Self::Add, Self::Replace, Self::Remove];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Remove => "remove",
        }
    }
}

/// A wanted record that is left to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanConflict {
    /// The purpose of the record.
    pub purpose: &'static str,
    /// Its type.
    pub record_type: &'static str,
    /// Its name.
    pub name: String,
    /// Its value, if that is known.
    pub value: Option<String>,
    /// The published values.
    pub found: Vec<String>,
    /// Why it is not changed, and what to do.
    pub reason: String,
    /// Whether a plan changes it that names its purpose in [`PlanOptions::replace`].
    pub is_replaceable: bool,
}

/// What a plan may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Purposes of records that the plan replaces although they lead elsewhere.
    pub replace: Vec<String>,
}

impl PlanOptions {
    /// Replaces the records of these purposes, in any case.
    pub fn replacing<T: AsRef<str>>(purposes: impl IntoIterator<Item = T>) -> Self {
        Self { replace: purposes.into_iter().map(|purpose| purpose.as_ref().trim().to_ascii_uppercase()).collect() }
    }
}

impl Service {
    /// Returns the changes that the domain's records need at its name server. Changes nothing.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn plan_dns(
        &self,
        caller: &Caller,
        name: &DomainName,
        options: &PlanOptions,
    ) -> Result<DnsPlan, PublishError> {
        caller.grants.admin()?;
        let primary = self.primary_of(name).await?;
        self.plan_at(&primary, name, options).await
    }

    pub(super) async fn provider_of(&self, name: &DomainName) -> Result<DnsProvider, PublishError> {
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        self.0.store.dns_providers().get(name).await?.ok_or(PublishError::NoProvider)
    }

    /// Returns the name server that takes changes of the domain's records.
    pub(super) async fn primary_of(&self, name: &DomainName) -> Result<Primary<'_>, PublishError> {
        let provider = self.provider_of(name).await?;
        self.primary_at(name, provider).await
    }

    pub(super) async fn primary_at(
        &self,
        name: &DomainName,
        provider: DnsProvider,
    ) -> Result<Primary<'_>, PublishError> {
        Primary::of(self.0.zone_dns.as_ref(), &self.0.settings.dns_agent, name, provider).await
    }

    pub(super) async fn plan_at(
        &self,
        primary: &Primary<'_>,
        name: &DomainName,
        options: &PlanOptions,
    ) -> Result<DnsPlan, PublishError> {
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?.name;
        // The first question fails fast: all others would wait for a server that does not answer.
        primary.records(name.as_str(), RecordKind::Mx).await.map_err(PublishError::Unanswered)?;
        let (keys, retired) = in_use_and_retired(self.0.store.dkim_keys().list(name).await?);
        let answers = PrimaryDns { primary, resolver: self.0.fresh_dns.as_ref() };
        let dns = TimedDns::new(&answers, TIME);
        let settings = &self.0.settings;
        let context = Context::new(&dns, &domain, &settings.mail_host).await;
        let server_keys = self.server_keys().await;
        let wanted = wanted_records(&context, &keys, server_keys, settings).await;
        let (mut changes, mut conflicts) = (Vec::new(), Vec::new());
        for record in wanted {
            match planned(primary, &context, record, options, &changes).await? {
                Some(Step::Change(change)) => changes.push(change),
                Some(Step::Conflict(conflict)) => conflicts.push(conflict),
                None => {}
            }
        }
        for DomainKey { key, .. } in retired.iter().take(RETIRED) {
            changes.extend(unneeded(primary, &domain, key).await?);
        }
        for port in server_keys.iter().flat_map(|_| mail_ports(settings.mail_programs)) {
            let name = record_name(&settings.mail_host, port);
            changes.extend(unneeded_server_key(primary, &name, server_keys, &changes).await?);
        }
        // Mail arrives when all else is there. Some servers refuse an exchange without address, and nothing else then.
        changes.sort_by_key(|change: &PlannedChange| change.purpose == "MX");
        let plan_id = id_of(&changes, &conflicts);
        let (zone, name_servers) = (primary.zone.apex.clone(), primary.zone.servers.clone());
        Ok(DnsPlan { domain, plan_id, zone, name_servers, changes, conflicts })
    }
}

enum Step {
    Change(PlannedChange),
    Conflict(PlanConflict),
}

/// Returns what a record needs; `None` if nothing.
async fn planned(
    primary: &Primary<'_>,
    context: &Context<'_>,
    record: WantedRecord,
    options: &PlanOptions,
    earlier: &[PlannedChange],
) -> Result<Option<Step>, PublishError> {
    let Some((kind, wanted)) = parsed(&record).filter(|_| primary.has(&record.name)) else {
        // The owner of an address publishes its PTR record. Others have no known value, or are in another zone.
        let is_open = record.record_type != "PTR" && record.required && record.status != Publication::Found;
        let reason = record.hint.clone();
        return Ok(is_open.then(|| Step::Conflict(conflict(&record, reason, false))));
    };
    if record.status == Publication::Found {
        return Ok(None);
    }
    let before = match before(primary, &record.name, kind, earlier).await? {
        Current::Records(before) => before,
        Current::Alias(target) => {
            let reason = format!("The name is an alias of {target}; remove the alias, or leave the record out.");
            return Ok(Some(Step::Conflict(conflict(&record, reason, false))));
        }
    };
    if kind == RecordKind::Cname
        && let Some(other) = primary.beside_an_alias(&record.name).await?
    {
        let other = other.as_str();
        let reason =
            format!("The name has {other} records, and none can stand beside an alias; remove them, or leave it out.");
        return Ok(Some(Step::Conflict(conflict(&record, reason, false))));
    }
    let may_replace = options.replace.iter().any(|purpose| purpose == record.purpose);
    let (records, action) = match record.status {
        Publication::Missing => (with(&before, wanted), ChangeAction::Add),
        Publication::Different if may_replace => (replaced(&before, &record, wanted), ChangeAction::Replace),
        Publication::Different if record.purpose == "SPF" => match merged_spf(context, &before).await {
            Ok(records) => (records, ChangeAction::Replace),
            Err(reason) => return Ok(Some(Step::Conflict(conflict(&record, reason, true)))),
        },
        Publication::Different | Publication::Found => {
            let reason = record.hint.clone();
            return Ok(Some(Step::Conflict(conflict(&record, reason, true))));
        }
        Publication::Unknown => {
            let reason = record.hint.clone();
            return Ok(Some(Step::Conflict(conflict(&record, reason, false))));
        }
    };
    let ttl = if before.records.is_empty() { WantedRecord::TTL_SECONDS } else { before.ttl };
    let after = RecordSet { ttl, records };
    if after.has_records_of(&before) {
        return Ok(None);
    }
    let change = primary.change(&record.name, kind, before, after);
    Ok(Some(Step::Change(PlannedChange { purpose: record.purpose, action, change, reason: record.hint })))
}

/// Returns the removal of a retired key's record, if it is published.
async fn unneeded(
    primary: &Primary<'_>,
    domain: &DomainName,
    key: &DkimKey,
) -> Result<Option<PlannedChange>, PublishError> {
    let dns_name = key.dns_name(domain);
    if !primary.has(&dns_name) {
        return Ok(None);
    }
    let Current::Records(before) = primary.current(&dns_name, RecordKind::Txt).await? else { return Ok(None) };
    let is_other = |data: &&RecordData| !data.joined_text().is_some_and(|text| publishes(&text, key));
    let records: Vec<_> = before.records.iter().filter(is_other).cloned().collect();
    if records.len() == before.records.len() {
        return Ok(None);
    }
    let after = RecordSet { ttl: before.ttl, records };
    let change = primary.change(&dns_name, RecordKind::Txt, before, after);
    let reason = "The key is retired: no mail with its signature is under way.".to_owned();
    Ok(Some(PlannedChange { purpose: "DKIM", action: ChangeAction::Remove, change, reason }))
}

/// Returns the removal of the record of the key that this server showed before, if it is published.
async fn unneeded_server_key(
    primary: &Primary<'_>,
    name: &str,
    keys: Option<KeyDigests>,
    earlier: &[PlannedChange],
) -> Result<Option<PlannedChange>, PublishError> {
    let Some(former) = keys.and_then(|keys| keys.former).filter(|_| primary.has(name)) else { return Ok(None) };
    let Current::Records(before) = before(primary, name, RecordKind::Tlsa, earlier).await? else { return Ok(None) };
    let former = RecordData::Tlsa(TlsaRecord::of_key(former));
    let records: Vec<_> = before.records.iter().filter(|data| **data != former).cloned().collect();
    if records.len() == before.records.len() {
        return Ok(None);
    }
    let after = RecordSet { ttl: before.ttl, records };
    let change = primary.change(name, RecordKind::Tlsa, before, after);
    let reason = "The server has a certificate with another key.".to_owned();
    Ok(Some(PlannedChange { purpose: "TLSA", action: ChangeAction::Remove, change, reason }))
}

/// Returns the records before a change: those after an earlier change of the same plan, or those of now.
async fn before(
    primary: &Primary<'_>,
    name: &str,
    kind: RecordKind,
    earlier: &[PlannedChange],
) -> Result<Current, PublishError> {
    let earlier = earlier.iter().rev().map(|planned| &planned.change);
    match earlier.clone().find(|change| change.name == name && change.kind == kind) {
        Some(change) => Ok(Current::Records(change.after.clone())),
        None => primary.current(name, kind).await,
    }
}

fn parsed(record: &WantedRecord) -> Option<(RecordKind, RecordData)> {
    let (kind, value) = (record.record_type.parse().ok()?, record.value.as_deref()?);
    let data = match kind {
        RecordKind::Txt => RecordData::text(value),
        kind => RecordData::parse(kind, value).ok()?,
    };
    Some((kind, data))
}

fn conflict(record: &WantedRecord, reason: String, is_replaceable: bool) -> PlanConflict {
    PlanConflict {
        purpose: record.purpose,
        record_type: record.record_type,
        name: record.name.clone(),
        value: record.value.clone(),
        found: record.found.clone(),
        reason,
        is_replaceable,
    }
}

fn with(before: &RecordSet, wanted: RecordData) -> Vec<RecordData> {
    let mut records = before.records.clone();
    records.push(wanted);
    records
}

/// Texts of other purposes at the same name stay.
fn replaced(before: &RecordSet, record: &WantedRecord, wanted: RecordData) -> Vec<RecordData> {
    let is_other = |data: &&RecordData| data.joined_text().is_some_and(|text| !has_purpose(&text, record.purpose));
    before.records.iter().filter(is_other).cloned().chain([wanted]).collect()
}

fn has_purpose(text: &str, purpose: &str) -> bool {
    let starts = |tag: &str| text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    match purpose {
        "SPF" => is_spf(text),
        "DMARC" => starts("v=DMARC1"),
        "MTA-STS" => starts("v=STSv1"),
        "TLS-RPT" => starts("v=TLSRPTv1"),
        // A selector belongs to one key.
        _ => true,
    }
}

/// Adds this server to the one policy of a domain.
async fn merged_spf(context: &Context<'_>, before: &RecordSet) -> Result<Vec<RecordData>, String> {
    let (policies, others): (Vec<_>, Vec<_>) =
        before.records.iter().cloned().partition(|data| data.joined_text().is_some_and(|text| is_spf(&text)));
    let [policy] = &policies[..] else {
        return Err("Receivers treat several policies as an error; keep one.".to_owned());
    };
    let extended = extended_spf(context, &policy.joined_text().unwrap_or_default()).await?;
    Ok(others.into_iter().chain([RecordData::text(&extended)]).collect())
}

/// Hashes all that a person sees of a plan.
fn id_of(changes: &[PlannedChange], conflicts: &[PlanConflict]) -> String {
    let mut hash = Sha256::new();
    for PlannedChange { change: SetChange { zone, name, kind, before, after }, .. } in changes {
        for part in [
            zone,
            name,
            kind.as_str(),
            &before.lines(),
            &before.ttl.to_string(),
            &after.lines(),
            &after.ttl.to_string(),
        ] {
            hash.update(part);
            hash.update([0]);
        }
    }
    for conflict in conflicts {
        hash.update(format!("{} {} {:?}", conflict.purpose, conflict.name, conflict.found));
        hash.update([0]);
    }
    hash.finalize().iter().take(ID_OCTETS).fold(String::new(), |mut id, octet| {
        let _ = write!(id, "{octet:02x}");
        id
    })
}
