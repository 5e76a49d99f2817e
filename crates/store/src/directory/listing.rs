//! The list of all mailboxes, by pages. If the query fails, because it cannot compute a column of some row, the rows
//! are narrowed down: only their own columns are missing then.

use std::collections::HashMap;

use mailapi_model::EmailAddress;

use super::Directory;
use super::mailbox::{DirectoryMailbox, RowFault, RowFaultKind, RowRead, read_mailbox};
use super::queries::RowColumns;
use crate::StoreError;
use crate::db::{Row, Stmt, count};

/// Failed queries after which rows are not narrowed down further. It is enough for about ten rows of a page; a query
/// that fails for all rows must not run for each of them.
const FAILED_QUERIES: u32 = 200;

/// One page of the list of mailboxes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryPage {
    /// The mailboxes.
    pub mailboxes: Vec<DirectoryMailbox>,
    /// Rows that are not, or not wholly, read.
    pub faults: Vec<RowFault>,
    /// Spellings of listed addresses that logins may not find, because they look the canonical one up.
    pub spellings: Vec<(String, EmailAddress)>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<DirectoryPlace>,
}

/// A position in the list of mailboxes, in the spelling of the user database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryPlace {
    after: String,
    /// The failed queries that remain, once the list could not be read at once.
    failures_left: Option<u32>,
}

/// Neighbouring rows of a page.
#[derive(Debug, Clone, Copy)]
struct RowSpan {
    from: usize,
    to: usize,
    columns: RowColumns,
}

/// A page whose mailboxes are being collected.
#[derive(Default)]
struct CollectedPage {
    page: DirectoryPage,
    places: HashMap<EmailAddress, usize>,
}

impl CollectedPage {
    fn add(&mut self, row: RowRead) {
        let RowRead { spelled, mailbox, fault } = row;
        let is_new = mailbox.is_none_or(|mailbox| self.add_mailbox(&spelled, mailbox));
        let fault = if is_new { fault } else { Some(RowFaultKind::OtherSpelling) };
        self.page.faults.extend(fault.map(|kind| RowFault { row: spelled, kind }));
    }

    /// Adds a mailbox; returns whether its address is new.
    ///
    /// Among several spellings of one address, the canonical one wins, because logins query it; otherwise the
    /// first wins.
    fn add_mailbox(&mut self, spelled: &str, mailbox: DirectoryMailbox) -> bool {
        let is_canonical = spelled == mailbox.email.as_str();
        let Some(place) = self.places.get(&mailbox.email) else {
            if !is_canonical && spelled != mailbox.email.international() {
                self.page.spellings.push((spelled.to_owned(), mailbox.email.clone()));
            }
            self.places.insert(mailbox.email.clone(), self.page.mailboxes.len());
            self.page.mailboxes.push(mailbox);
            return true;
        };
        if is_canonical {
            self.page.spellings.retain(|(_, email)| *email != mailbox.email);
            self.page.mailboxes[*place] = mailbox;
        }
        false
    }

    fn add_fault(&mut self, row: &str, kind: RowFaultKind) {
        self.page.faults.push(RowFault { row: row.to_owned(), kind });
    }

    /// Notes that a query for these rows failed, and returns the queries that may still succeed.
    fn note_failure(&mut self, span: RowSpan, rows: &[String], may_split: bool, error: &StoreError) -> Vec<RowSpan> {
        let RowSpan { from, to, columns } = span;
        if may_split && to - from > 1 {
            let middle = from.midpoint(to);
            return vec![RowSpan { from: middle, ..span }, RowSpan { to: middle, ..span }];
        }
        let is_detail = columns == RowColumns::All;
        for row in &rows[from..to] {
            let kind = if is_detail { RowFaultKind::Details } else { RowFaultKind::State };
            self.add_fault(row, kind(error.clone()));
        }
        if is_detail { vec![RowSpan { columns: RowColumns::Identity, ..span }] } else { Vec::new() }
    }
}

impl Directory {
    /// Returns at most [`super::DirectorySettings::page`] mailboxes after a position.
    ///
    /// A row whose columns the query cannot compute is among the faults; its mailbox is listed if its state can be
    /// read.
    ///
    /// # Errors
    /// When the database cannot be read, or the query does not even return the addresses.
    pub async fn mailboxes(&self, after: &DirectoryPlace) -> Result<DirectoryPage, StoreError> {
        let failed = match after.failures_left {
            Some(_) => None,
            None => match self.page_at_once(after).await {
                Err(error) if !error.is_unavailable() => Some(error),
                done => return done,
            },
        };
        let page = self.page_by_address(after).await?;
        match failed {
            // No row is to blame.
            Some(error) if page.mailboxes.is_empty() && page.faults.is_empty() => Err(error),
            _ => Ok(page),
        }
    }

    async fn page_at_once(&self, after: &DirectoryPlace) -> Result<DirectoryPage, StoreError> {
        let rows = self.page_of_rows(RowColumns::All, after).await?;
        let is_full = rows.len() >= self.page_size();
        let mut collected = CollectedPage::default();
        let mut last = None;
        for row in rows {
            let row = read_mailbox(row, RowColumns::All)?;
            // Continue after the last row, even if it is not a mailbox.
            last = Some(row.spelled.clone());
            collected.add(row);
        }
        let next = last.filter(|_| is_full).map(|after| DirectoryPlace { after, failures_left: None });
        Ok(DirectoryPage { next, ..collected.page })
    }

    /// Reads the addresses of a page, and then the columns of as many rows at once as possible.
    async fn page_by_address(&self, place: &DirectoryPlace) -> Result<DirectoryPage, StoreError> {
        let rows = self.page_of_rows(RowColumns::Address, place).await?;
        let rows = rows.into_iter().map(|mut row| row.text()).collect::<Result<Vec<_>, _>>()?;
        let mut failures_left = place.failures_left.unwrap_or(FAILED_QUERIES);
        let mut collected = CollectedPage::default();
        let whole = RowSpan { from: 0, to: rows.len(), columns: RowColumns::All };
        let mut spans: Vec<_> = (!rows.is_empty()).then_some(whole).into_iter().collect();
        while let Some(span) = spans.pop() {
            let after = span.from.checked_sub(1).map_or(&place.after, |before| &rows[before]);
            match self.rows_between(span.columns, after, &rows[span.to - 1]).await {
                Ok(found) => found.into_iter().for_each(|row| collected.add(row)),
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    failures_left = failures_left.saturating_sub(1);
                    spans.extend(collected.note_failure(span, &rows, failures_left > 0, &error));
                }
            }
        }
        let last = rows.into_iter().nth(self.page_size() - 1);
        let next = last.map(|after| DirectoryPlace { after, failures_left: Some(failures_left) });
        Ok(DirectoryPage { next, ..collected.page })
    }

    async fn page_of_rows(&self, columns: RowColumns, after: &DirectoryPlace) -> Result<Vec<Row<'static>>, StoreError> {
        let sql = self.0.queries.page_of_mailboxes(columns, self.order());
        self.query(Stmt::new(sql).bind(after.after.as_str()).bind(count(self.page_size()))).await
    }

    async fn rows_between(&self, columns: RowColumns, after: &str, last: &str) -> Result<Vec<RowRead>, StoreError> {
        let sql = self.0.queries.mailboxes_between(columns, self.order());
        let rows = self.query(Stmt::new(sql).bind(after).bind(last)).await?;
        rows.into_iter().map(|row| read_mailbox(row, columns)).collect()
    }

    fn page_size(&self) -> usize {
        self.settings().page.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::DirectoryQuota;

    #[test]
    fn of_several_spellings_the_lower_case_one_counts() {
        let spellings = ["Ann@Example.org", "ann@example.org", "ANN@example.org", "bob@example.org"];
        for turned in 0..spellings.len() {
            let mut collected = CollectedPage::default();
            for spelled in spellings.iter().cycle().skip(turned).take(spellings.len()) {
                let email = spelled.parse().unwrap();
                let name = Some((*spelled).to_owned());
                let mailbox = DirectoryMailbox { email, name, active: true, quota: DirectoryQuota::Unlimited };
                collected.add(RowRead { spelled: (*spelled).to_owned(), mailbox: Some(mailbox), fault: None });
            }
            let page = collected.page;
            let mut names: Vec<_> = page.mailboxes.iter().filter_map(|mailbox| mailbox.name.as_deref()).collect();
            names.sort_unstable();
            assert_eq!(names, ["ann@example.org", "bob@example.org"], "from {turned}");
            assert!(page.faults.len() == 2 && page.spellings.is_empty(), "from {turned}");
        }
    }
}
