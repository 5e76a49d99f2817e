//! Reading the counts.

use std::collections::BTreeMap;

use mailapi_model::{DomainName, EmailAddress, Timestamp};

use super::Stats;
use super::counts::SentCounts;
use super::hours::{Hours, Piece, Span};
use crate::StoreError;
use crate::db::{Row, Stmt, Value, count, exactly_one};

/// Whose sent mail. Scopes that are read together must not overlap: what is in two is counted twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentScope {
    /// Everybody's.
    All,
    /// That from the addresses of this domain.
    Domain(DomainName),
    /// That from this address.
    Address(EmailAddress),
}

impl SentScope {
    /// The text in the database: an address has an `@`, a domain has none, and neither is empty.
    fn as_str(&self) -> &str {
        match self {
            Self::All => "",
            Self::Domain(domain) => domain.as_str(),
            Self::Address(address) => address.as_str(),
        }
    }
}

/// Mail from outside for one domain, counted per recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboundCounts {
    /// Taken in; the spam is among them.
    pub accepted: u64,
    /// Refused while the other server was still connected.
    pub rejected: u64,
    /// Marked as spam.
    pub spam: u64,
}

const SENT: &str = "sent, delivered, bounced, deferred, rejected";

impl Stats<'_> {
    /// Sent mail by the hours or days of a period. Those in which nothing was sent are missing; a day that lies in the
    /// period only in part counts with that part.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sent_by_time(
        &self,
        scopes: &[SentScope],
        hours: Hours,
        span: Span,
    ) -> Result<BTreeMap<Timestamp, SentCounts>, StoreError> {
        let pieces = if span == Span::Hour { hours.piece_of_hours() } else { hours.pieces() };
        let rows = self.fetch(sent_totals("start_at", scopes, &pieces)).await?;
        let mut sums: BTreeMap<Timestamp, SentCounts> = BTreeMap::new();
        for mut row in rows {
            let begin = span.begin_of(row.time()?);
            sums.entry(begin).or_default().add(SentCounts::read(&mut row)?);
        }
        Ok(sums)
    }

    /// Sent mail of each of these domains in a period; those that sent nothing are missing.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sent_by_domain(
        &self,
        domains: &[DomainName],
        hours: Hours,
    ) -> Result<BTreeMap<DomainName, SentCounts>, StoreError> {
        let scopes: Vec<SentScope> = domains.iter().cloned().map(SentScope::Domain).collect();
        let rows = self.fetch(sent_totals("scope", &scopes, &hours.pieces())).await?;
        let mut sums: BTreeMap<DomainName, SentCounts> = BTreeMap::new();
        for mut row in rows {
            sums.entry(row.parsed()?).or_default().add(SentCounts::read(&mut row)?);
        }
        Ok(sums)
    }

    /// Sent mail in a period by the recipients' domains: the `most` that were sent the most, the most first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sent_to_domains(
        &self,
        scopes: &[SentScope],
        hours: Hours,
        most: usize,
    ) -> Result<Vec<(DomainName, SentCounts)>, StoreError> {
        let rows = self.fetch(sent_to_domains(scopes, hours, most)).await?;
        rows.into_iter().map(|mut row| Ok((row.parsed()?, SentCounts::read(&mut row)?))).collect()
    }

    /// Mail from outside for a domain in a period.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn inbound(&self, domain: &DomainName, hours: Hours) -> Result<InboundCounts, StoreError> {
        let rows = self.fetch(inbound_totals(domain, hours)).await?;
        let mut counts = InboundCounts::default();
        for mut row in rows {
            counts.accepted += row.unsigned()?;
            counts.rejected += row.unsigned()?;
            counts.spam += row.unsigned()?;
        }
        Ok(counts)
    }

    /// The `most` sender domains from which most mail was taken in for a domain in a period, the most first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn inbound_from_domains(
        &self,
        domain: &DomainName,
        hours: Hours,
        most: usize,
    ) -> Result<Vec<(DomainName, u64)>, StoreError> {
        let rows = self.fetch(inbound_from_domains(domain, hours, most)).await?;
        rows.into_iter().map(|mut row| Ok((row.parsed()?, row.unsigned()?))).collect()
    }

    /// No statement asks for nothing.
    async fn fetch(&self, statement: Option<Stmt>) -> Result<Vec<Row<'static>>, StoreError> {
        let Some(statement) = statement else { return Ok(Vec::new()) };
        exactly_one(self.0.scan(vec![statement]).await?)
    }
}

pub(crate) fn sent_totals(key: &str, scopes: &[SentScope], pieces: &[Piece]) -> Option<Stmt> {
    let columns = format!("{key}, {SENT}");
    let scopes = scopes.iter().map(SentScope::as_str);
    let (sql, params) = rows_of("sent_totals", &columns, "scope", scopes, pieces)?;
    Some(Stmt::new(sql).bind_all(params))
}

pub(crate) fn sent_to_domains(scopes: &[SentScope], hours: Hours, most: usize) -> Option<Stmt> {
    let columns = format!("recipient_domain, {SENT}");
    let scopes = scopes.iter().map(SentScope::as_str);
    let (rows, params) = rows_of("sent_to_domains", &columns, "scope", scopes, &hours.pieces())?;
    let sums = SENT.split(", ").map(|column| format!("CAST(SUM({column}) AS BIGINT)")).collect::<Vec<_>>().join(", ");
    Some(largest("recipient_domain", &sums, "SUM(sent)", &rows, params, most))
}

pub(crate) fn inbound_totals(domain: &DomainName, hours: Hours) -> Option<Stmt> {
    let columns = "accepted, rejected, spam";
    let (sql, params) = rows_of("inbound_totals", columns, "domain", [domain.as_str()].into_iter(), &hours.pieces())?;
    Some(Stmt::new(sql).bind_all(params))
}

pub(crate) fn inbound_from_domains(domain: &DomainName, hours: Hours, most: usize) -> Option<Stmt> {
    let (table, columns) = ("inbound_from_domains", "sender_domain, accepted");
    let (rows, params) = rows_of(table, columns, "domain", [domain.as_str()].into_iter(), &hours.pieces())?;
    let sum = "CAST(SUM(accepted) AS BIGINT)";
    Some(largest("sender_domain", sum, "SUM(accepted)", &rows, params, most))
}

/// The rows of all pieces of a period: each piece is one range of the primary key, for each that is asked for.
/// Nothing when nobody is asked for, or no time.
fn rows_of<'a>(
    table: &str,
    columns: &str,
    whose: &str,
    wanted: impl Iterator<Item = &'a str>,
    pieces: &[Piece],
) -> Option<(String, Vec<Value>)> {
    let mut params: Vec<Value> = wanted.map(Value::from).collect();
    if params.is_empty() || pieces.is_empty() {
        return None;
    }
    let places = (1..=params.len()).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
    let mut selects = Vec::with_capacity(pieces.len());
    for (span, start, end) in pieces {
        let (a, b, c) = (params.len() + 1, params.len() + 2, params.len() + 3);
        selects.push(format!(
            "SELECT {columns} FROM {table} \
             WHERE {whose} IN ({places}) AND span = ${a} AND start_at >= ${b} AND start_at < ${c}"
        ));
        params.extend([Value::from(span.as_str()), Value::from(*start), Value::from(*end)]);
    }
    Some((selects.join(" UNION ALL "), params))
}

/// The `most` groups with the largest sums.
fn largest(group: &str, sums: &str, by: &str, rows: &str, params: Vec<Value>, most: usize) -> Stmt {
    let limit = params.len() + 1;
    let sql = format!(
        "SELECT {group}, {sums} FROM ({rows}) AS pieces GROUP BY {group} ORDER BY {by} DESC, {group} LIMIT ${limit}"
    );
    Stmt::new(sql).bind_all(params).bind(count(most))
}
