//! The operator's queries, and the SQL built around them.

/// Columns of the mailbox query. They are read as text, because each schema has its own types.
const COLUMNS: &str = "CAST(email AS TEXT), CAST(name AS TEXT), CAST(active AS TEXT), CAST(quota_bytes AS TEXT)";

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

    pub(super) fn one_mailbox(&self) -> String {
        format!("SELECT {COLUMNS} FROM ({}) AS mailboxes WHERE email = CAST($1 AS TEXT)", self.mailboxes)
    }

    /// Pages in the database's own collation: it compares and sorts by the same rule.
    pub(super) fn page_of_mailboxes(&self) -> String {
        format!(
            "SELECT {COLUMNS} FROM ({}) AS mailboxes WHERE email > CAST($1 AS TEXT) ORDER BY email LIMIT $2",
            self.mailboxes
        )
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
