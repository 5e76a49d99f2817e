//! Aliases.

use std::collections::HashMap;

use mailapi_events::{alias_created, alias_deleted, alias_updated};
use mailapi_model::{Alias, AliasChange, DomainName, EmailAddress, Listed, Page, Timestamp};
use rusqlite::Connection;

use crate::StoreError;
use crate::accounts::containing;
use crate::db::{
    BatchLock, Changed, Db, Filter, List, Row, Stmt, Value, count, exactly_one, first_guard_held, sqlite_queries,
};
use crate::events::Log;

/// The aliases.
#[derive(Debug, Clone, Copy)]
pub struct Aliases<'a>(pub(crate) &'a Db);

/// Which aliases to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AliasFilter {
    /// Only aliases of these domains; `None` means all.
    pub domains: Option<Vec<DomainName>>,
    /// Only aliases whose address, or a member's address, contains this text, ignoring case.
    pub q: Option<String>,
    /// Aliases to leave out.
    pub hide: Vec<EmailAddress>,
}

/// Result of a change.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasStored {
    /// It is stored.
    Stored,
    /// An alias or an account has the address.
    Taken,
    /// Through other aliases, the members lead back to the alias.
    Loop,
    /// The alias does not exist.
    Missing,
}

const COLUMNS: &str = "address, address_given, active, created_at";

pub(crate) const ALIASES: List =
    List { table: "aliases", key: "address", order: "created_at DESC, address DESC", columns: COLUMNS };

impl Aliases<'_> {
    /// Adds an alias.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when its domain or a sender does not exist.
    pub async fn insert(&self, alias: &Alias) -> Result<AliasStored, StoreError> {
        let is_account = Stmt::new("SELECT 1 FROM accounts WHERE email = $1").bind(&alias.address).demand(0);
        let mut statements = vec![is_account, insert_alias(alias)];
        let guard = add_members(&mut statements, &alias.address, &alias.members);
        statements.extend(inserted_senders(&alias.address, &alias.senders));
        statements.push(Log::of(self.0).insert(&alias_created(alias, self.0.next_fact())));
        stored(self.change(&alias.address, statements).await, AliasStored::Taken, Some(guard))
    }

    /// Returns the alias with this address.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, address: &EmailAddress) -> Result<Option<Alias>, StoreError> {
        Ok(joined(self.0.read(one(address)).await?)?.pop())
    }

    /// Returns a page of the aliases, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &AliasFilter, page: Page) -> Result<Listed<Alias>, StoreError> {
        let filter = conditions(filter);
        let (keys, params) = ALIASES.page_keys(&filter, page).into_parts();
        let mut queries = Vec::from(of_keys(&keys, ALIASES.order, &params));
        queries.push(ALIASES.total(&filter));
        let mut answers = self.0.scan(queries).await?;
        let total = exactly_one(answers.pop().unwrap_or_default())?.unsigned()?;
        Ok(Listed { total, items: joined(answers)? })
    }

    /// Returns at most `limit` aliases after `after`, in the order of their addresses.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn after(&self, after: Option<&EmailAddress>, limit: usize) -> Result<Vec<Alias>, StoreError> {
        const KEYS: &str = "SELECT address FROM aliases WHERE address > $1 ORDER BY address LIMIT $2";
        let params = [Value::from(after.map_or("", EmailAddress::as_str)), Value::from(count(limit))];
        joined(self.0.scan(of_keys(KEYS, "address", &params).into()).await?)
    }

    /// Changes an alias.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update(
        &self,
        address: &EmailAddress,
        change: &AliasChange,
        now: Timestamp,
    ) -> Result<AliasStored, StoreError> {
        let sql = "UPDATE aliases SET active = COALESCE(CAST($2 AS BOOLEAN), active) WHERE address = $1";
        let mut statements = vec![Stmt::new(sql).bind(address).bind(change.active).demand(1)];
        let guard = change.members.as_ref().map(|members| {
            statements.push(Stmt::new("DELETE FROM alias_members WHERE alias = $1").bind(address));
            add_members(&mut statements, address, members)
        });
        if let Some(senders) = &change.senders {
            statements.push(Stmt::new("DELETE FROM alias_senders WHERE alias = $1").bind(address));
            statements.extend(inserted_senders(address, senders));
        }
        statements.push(Log::of(self.0).insert(&alias_updated(address, change, now, self.0.next_fact())));
        stored(self.change(address, statements).await, AliasStored::Missing, guard)
    }

    /// Deletes an alias; returns whether it existed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, address: &EmailAddress, now: Timestamp) -> Result<bool, StoreError> {
        // The members are deleted by their foreign key.
        let alias = Stmt::new("DELETE FROM aliases WHERE address = $1").bind(address).demand(1);
        let event = Log::of(self.0).insert(&alias_deleted(address, now, self.0.next_fact()));
        first_guard_held(self.change(address, vec![alias, event]).await)
    }

    /// Concurrent changes of two aliases could make a loop that neither of them sees.
    async fn change(&self, address: &EmailAddress, statements: Vec<Stmt>) -> Result<(), StoreError> {
        let changed = Changed::Alias(address.clone());
        self.0.batch_followed_with_lock(BatchLock::Aliases, changed, statements).await.map(drop)
    }
}

/// Returns the alias with this address in a transaction.
pub(crate) fn find(connection: &Connection, address: &EmailAddress) -> Result<Option<Alias>, StoreError> {
    Ok(joined(sqlite_queries(connection, &one(address))?)?.pop())
}

/// Reads what became of a batch. `first` is the meaning of its first guard, and `guard` is the place of the check for
/// loops.
fn stored(
    outcome: Result<(), StoreError>,
    first: AliasStored,
    guard: Option<usize>,
) -> Result<AliasStored, StoreError> {
    match outcome {
        Ok(()) => Ok(AliasStored::Stored),
        Err(StoreError::Guard { statement: 0, .. }) => Ok(first),
        Err(StoreError::Guard { statement, .. }) if Some(statement) == guard => Ok(AliasStored::Loop),
        Err(error) if error.is_conflict() => Ok(AliasStored::Taken),
        Err(error) => Err(error),
    }
}

fn insert_alias(alias: &Alias) -> Stmt {
    let Alias { address, members: _, senders: _, active, created_at } = alias;
    let lookup =
        if address.is_catch_all() { format!("@{}", address.domain_str()) } else { address.as_str().to_owned() };
    Stmt::new(
        "INSERT INTO aliases (address, address_given, lookup, domain, active, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(address)
    .bind(address.given())
    .bind(lookup)
    .bind(address.domain_str())
    .bind(*active)
    .bind(*created_at)
}

/// Adds statements that store the members, and one that fails if they lead back to the alias. Returns its place.
fn add_members(statements: &mut Vec<Stmt>, alias: &EmailAddress, members: &[EmailAddress]) -> usize {
    const INSERT: &str = "INSERT INTO alias_members (alias, member, member_given, place) VALUES ($1, $2, $3, $4)";
    let insert = |(place, member): (usize, &EmailAddress)| {
        Stmt::new(INSERT).bind(alias).bind(member).bind(member.given()).bind(count(place))
    };
    statements.extend(members.iter().enumerate().map(insert));
    statements.push(leads_back(alias).demand(0));
    statements.len() - 1
}

/// Returns statements that store the senders.
fn inserted_senders(alias: &EmailAddress, senders: &[EmailAddress]) -> impl Iterator<Item = Stmt> {
    const INSERT: &str = "INSERT INTO alias_senders (alias, sender, sender_given, place) VALUES ($1, $2, $3, $4)";
    senders
        .iter()
        .enumerate()
        .map(move |(place, sender)| Stmt::new(INSERT).bind(alias).bind(sender).bind(sender.given()).bind(count(place)))
}

/// The address `reached.address` before its tag, by functions that both engines have: the characters before the first `+`,
/// with the domain.
const BASE: &str = "(substr(reached.address, 1, length(reached.address) \
    - length(ltrim(reached.address, replace(reached.address, '+', '')))) || '@' || DOMAIN)";

/// The domain of `reached.address`: what follows the characters up to the last `@`.
const DOMAIN: &str = "substr(reached.address, length(rtrim(reached.address, replace(reached.address, '@', ''))) + 1)";

/// Returns a query for a row if mail for `alias` comes back to it. It follows addresses as the mail server does: an alias,
/// the alias without the tag, and the catch-all, unless an account or another alias has the address.
fn leads_back(alias: &EmailAddress) -> Stmt {
    let base = BASE.replace("DOMAIN", DOMAIN);
    let catch_all = format!("'*@' || {DOMAIN}");
    let is_taken = |address: &str| {
        format!(
            "(EXISTS (SELECT 1 FROM accounts WHERE email = {address}) \
             OR EXISTS (SELECT 1 FROM aliases WHERE aliases.address = {address} AND aliases.active))"
        )
    };
    let (reached, of_base) = (is_taken("reached.address"), is_taken(&base));
    let stands_for = |alias: &str| {
        format!(
            "{alias} IN (reached.address, {base}, {catch_all}) AND ({alias} = reached.address \
             OR NOT {reached} AND ({alias} = {base} OR {alias} = {catch_all} AND NOT {of_base}))"
        )
    };
    let sql = format!(
        "WITH RECURSIVE reached (address) AS (SELECT member FROM alias_members WHERE alias = $1 UNION \
         SELECT further.member FROM reached JOIN alias_members AS further ON {}) SELECT 1 FROM reached WHERE {}",
        stands_for("further.alias"),
        stands_for("$1")
    );
    Stmt::new(sql).bind(alias)
}

fn one(address: &EmailAddress) -> Vec<Stmt> {
    of_keys("SELECT address FROM aliases WHERE address = $1", "address", &[address.into()]).into()
}

/// Returns queries for the aliases whose addresses `keys` selects, for their members, and for their senders.
fn of_keys(keys: &str, order: &str, params: &[Value]) -> [Stmt; 3] {
    let aliases = format!("SELECT {COLUMNS} FROM aliases WHERE address IN ({keys}) ORDER BY {order}");
    let members =
        format!("SELECT alias, member, member_given FROM alias_members WHERE alias IN ({keys}) ORDER BY alias, place");
    let senders =
        format!("SELECT alias, sender, sender_given FROM alias_senders WHERE alias IN ({keys}) ORDER BY alias, place");
    [aliases, members, senders].map(|sql| Stmt::new(sql).bind_all(params.iter().cloned()))
}

/// Reads the results of [`of_keys`].
fn joined(answers: Vec<Vec<Row<'_>>>) -> Result<Vec<Alias>, StoreError> {
    let mut answers = answers.into_iter();
    let aliases = answers.next().unwrap_or_default();
    let (mut members, mut senders) =
        (by_alias(answers.next().unwrap_or_default())?, by_alias(answers.next().unwrap_or_default())?);
    let read = |mut row: Row<'_>| {
        let address = row.address()?;
        let members = members.remove(address.as_str()).unwrap_or_default();
        let senders = senders.remove(address.as_str()).unwrap_or_default();
        Ok(Alias { address, members, senders, active: row.bool()?, created_at: row.time()? })
    };
    aliases.into_iter().map(read).collect()
}

/// Reads addresses by the alias that has them.
fn by_alias(rows: Vec<Row<'_>>) -> Result<HashMap<String, Vec<EmailAddress>>, StoreError> {
    let mut addresses: HashMap<String, Vec<EmailAddress>> = HashMap::new();
    for mut row in rows {
        addresses.entry(row.text()?).or_default().push(row.address()?);
    }
    Ok(addresses)
}

pub(crate) fn conditions(filter: &AliasFilter) -> Filter {
    const CONTAINS: &str = "(address LIKE ? ESCAPE '\\' OR EXISTS (SELECT 1 FROM alias_members \
                            WHERE alias = address AND member LIKE ? ESCAPE '\\'))";
    let domains = filter.domains.as_ref().map(|names| names.iter().map(Value::from).collect());
    Filter::all()
        .one_of("domain", domains)
        .when(CONTAINS, filter.q.as_deref().map(containing))
        .none_of("address", filter.hide.iter().map(Value::from).collect())
}
