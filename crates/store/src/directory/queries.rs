//! The operator's queries, and the SQL built around them.

/// Which columns of the mailbox query are computed. An engine computes no others, unless the query is a
/// `SELECT DISTINCT` or a UNION; so a row whose quota cannot be computed still has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowColumns {
    /// The address alone.
    Address,
    /// The address, and whether its owner may log in.
    Identity,
    /// These, the name and the quota.
    All,
}

impl RowColumns {
    /// The columns as text, because each schema has its own types.
    const fn list(self) -> &'static str {
        match self {
            Self::Address => "CAST(email AS TEXT)",
            Self::Identity => "CAST(email AS TEXT), CAST(active AS TEXT)",
            Self::All => "CAST(email AS TEXT), CAST(active AS TEXT), CAST(name AS TEXT), CAST(quota_bytes AS TEXT)",
        }
    }
}

/// How addresses are compared and sorted. Both must follow one rule, or pages would skip rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressOrder {
    /// By the column's own collation, which its index has.
    Column,
    /// As text. A `citext` column of PostgreSQL sorts without case, but is compared with a text by case.
    Text,
}

impl AddressOrder {
    const fn key(self) -> &'static str {
        match self {
            Self::Column => "email",
            Self::Text => "CAST(email AS TEXT)",
        }
    }
}

/// The queries of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryQueries {
    password: String,
    mailboxes: String,
}

/// Why a query was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryQueryError {
    /// The password query does not use exactly the parameter `$1`.
    #[error("the password query must have exactly one parameter: the address, `$1`")]
    Password,
    /// The mailbox query is not a SELECT, or has parameters.
    #[error("the mailbox query must be one SELECT without parameters")]
    Mailboxes,
}

impl DirectoryQueries {
    /// Checks and stores the queries.
    ///
    /// `password` selects one column, the hash, for the address `$1`; no row means that the owner may not log
    /// in. `mailboxes` selects the columns `email`, `name`, `active` and `quota_bytes` of all mailboxes.
    ///
    /// # Errors
    /// See [`DirectoryQueryError`]. Missing tables are detected only when a query runs.
    pub fn new(password: &str, mailboxes: &str) -> Result<Self, DirectoryQueryError> {
        let (password, mailboxes) = (bare(password), bare(mailboxes));
        if !is_select(password) || !password.contains("$1") || password.contains("$2") {
            return Err(DirectoryQueryError::Password);
        }
        if !is_select(mailboxes) || mailboxes.contains("$1") {
            return Err(DirectoryQueryError::Mailboxes);
        }
        Ok(Self { password: password.to_owned(), mailboxes: mailboxes.to_owned() })
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    /// The rows of the address `$1`.
    pub(super) fn one_mailbox(&self, columns: RowColumns, order: AddressOrder) -> String {
        format!("{} WHERE {} = CAST($1 AS TEXT)", self.select(columns), order.key())
    }

    /// At most `$2` rows after the address `$1`.
    pub(super) fn page_of_mailboxes(&self, columns: RowColumns, order: AddressOrder) -> String {
        let key = order.key();
        format!("{} WHERE {key} > CAST($1 AS TEXT) ORDER BY {key} LIMIT $2", self.select(columns))
    }

    /// The rows after the address `$1` up to and with the address `$2`.
    pub(super) fn mailboxes_between(&self, columns: RowColumns, order: AddressOrder) -> String {
        let key = order.key();
        let select = self.select(columns);
        format!("{select} WHERE {key} > CAST($1 AS TEXT) AND {key} <= CAST($2 AS TEXT) ORDER BY {key}")
    }

    fn select(&self, columns: RowColumns) -> String {
        format!("SELECT {} FROM ({}) AS mailboxes", columns.list(), self.mailboxes)
    }
}

fn bare(query: &str) -> &str {
    query.trim().trim_end_matches(';').trim_end()
}

fn is_select(query: &str) -> bool {
    let first = query.split_whitespace().next().unwrap_or_default();
    ["select", "with"].iter().any(|word| first.eq_ignore_ascii_case(word)) && !query.contains(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "SELECT password FROM mailbox WHERE username = $1";
    const MAILBOXES: &str = "SELECT username AS email, name, active, quota AS quota_bytes FROM mailbox";

    #[test]
    fn what_is_no_query_is_refused() {
        for password in
            ["", "DELETE FROM mailbox", "SELECT password FROM mailbox", "SELECT $1; SELECT $1", "SELECT $1, $2"]
        {
            assert_eq!(DirectoryQueries::new(password, MAILBOXES), Err(DirectoryQueryError::Password), "{password}");
        }
        for mailboxes in ["", "mailbox", "SELECT 1; DROP TABLE mailbox", "SELECT * FROM mailbox WHERE username = $1"] {
            assert_eq!(DirectoryQueries::new(PASSWORD, mailboxes), Err(DirectoryQueryError::Mailboxes), "{mailboxes}");
        }
        assert_eq!(
            DirectoryQueries::new(&format!("{PASSWORD} ; "), &format!(" {MAILBOXES};\n")),
            DirectoryQueries::new(PASSWORD, MAILBOXES)
        );
    }
}
