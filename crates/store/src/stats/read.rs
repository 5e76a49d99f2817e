//! Reads the counts.

use std::collections::BTreeMap;

use mailapi_model::{DomainName, EmailAddress, Timestamp};

use super::Stats;
use super::counts::SentCounts;
use super::hours::{Hours, Piece, Span};
use crate::StoreError;
use crate::db::{Row, Stmt, Value, count, exactly_one};

/// A scope of sent mail. Scopes read together must not overlap, or their messages are counted twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentScope {
    /// All sent mail.
    All,
    /// Mail from the addresses of this domain.
    Domain(DomainName),
    /// Mail from this address.
    Address(EmailAddress),
}

impl SentScope {
    /// Returns the key in the database: an address contains an `@`, a domain does not, and neither is empty.
    fn as_str(&self) -> &str {
        match self {
            Self::All => "",
            Self::Domain(domain) => domain.as_str(),
            Self::Address(address) => address.as_str(),
        }
    }
}

/// Incoming mail for one domain, counted per recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboundCounts {
    /// Accepted, including spam.
    pub accepted: u64,
    /// Rejected during the SMTP session.
    pub rejected: u64,
    /// Marked as spam.
    pub spam: u64,
}

const SENT: &str = "sent, delivered, bounced, deferred, rejected";

impl Stats<'_> {
    /// Returns sent mail by hour or day of a period. Hours and days without mail are omitted; a day that lies
    /// only partly in the period is counted for that part.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sent_by_time(
        &self,
        scopes: &[SentScope],
        hours: Hours,
        span: Span,
    ) -> Result<BTreeMap<Timestamp, SentCounts>, StoreError> {
        // Hours only if hours are wanted: a count of a whole day cannot be split.
        let pieces = if span == Span::Hour { hours.piece_of_hours() } else { hours.pieces() };
        let rows = self.fetch(sent_totals("start_at", scopes, &pieces)).await?;
        let mut sums: BTreeMap<Timestamp, SentCounts> = BTreeMap::new();
        for mut row in rows {
            let begin = span.begin_of(row.time()?);
            sums.entry(begin).or_default().add(SentCounts::read(&mut row)?);
        }
        Ok(sums)
    }

    /// Returns the sent mail of each of these domains in a period; domains that sent nothing are omitted.
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

    /// Returns the `most` recipient domains with the most sent mail in a period, largest first.
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

    /// Returns the incoming mail of a domain in a period.
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

    /// Returns the `most` sender domains with the most accepted mail for a domain in a period, largest first.
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

    /// Runs a statement; `None` returns no rows.
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

/// Returns a query for the rows of all pieces of a period, with its parameters; `None` if no key or no time
/// is asked for. Each piece is one range of the primary key for each key.
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
        // Parameters follow those of the keys and of earlier pieces.
        let (a, b, c) = (params.len() + 1, params.len() + 2, params.len() + 3);
        selects.push(format!(
            "SELECT {columns} FROM {table} \
             WHERE {whose} IN ({places}) AND span = ${a} AND start_at >= ${b} AND start_at < ${c}"
        ));
        params.extend([Value::from(span.as_str()), Value::from(*start), Value::from(*end)]);
    }
    Some((selects.join(" UNION ALL "), params))
}

/// Returns a query for the `most` groups with the largest sums.
fn largest(group: &str, sums: &str, by: &str, rows: &str, params: Vec<Value>, most: usize) -> Stmt {
    let limit = params.len() + 1;
    let sql = format!(
        "SELECT {group}, {sums} FROM ({rows}) AS pieces GROUP BY {group} ORDER BY {by} DESC, {group} LIMIT ${limit}"
    );
    Stmt::new(sql).bind_all(params).bind(count(most))
}
