//! What `mailapi doctor` finds in an external user database.

use std::collections::BTreeMap;

use mailapi_model::EmailAddress;
use mailapi_store::{Directory, DirectoryMailbox, DirectoryPlace, DirectoryQuota, RowFault, RowFaultKind};

use crate::auth::hash_fault;
use crate::{Service, Unavailable};

/// Mailboxes whose passwords are looked at. The password query may read its whole table, so one for each mailbox of a
/// large installation takes minutes.
const SAMPLE: usize = 500;

/// A smaller quota is more likely a number of megabytes.
const SMALLEST_QUOTA: u64 = 1024 * 1024;

/// Rows named for each fault.
const EXAMPLES: usize = 3;

/// What the operator's two queries return.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryProbe {
    /// The first mailbox, if there is any.
    pub first: Option<EmailAddress>,
    /// Number of mailboxes.
    pub mailboxes: usize,
    /// Number of mailboxes whose passwords were looked at; with many mailboxes, these are a sample.
    pub sampled: usize,
    /// Hashes that no password can match, by reason.
    pub unknown_schemes: Vec<UnknownScheme>,
    /// Mailboxes whose password query fails, by the database's reason.
    pub failed_passwords: Vec<ProbedRows>,
    /// Active mailboxes without a password.
    pub without_password: Option<ProbedRows>,
    /// Mailboxes that no login finds, because the address is spelled differently.
    pub not_found: Option<ProbedRows>,
    /// Rows that cannot be read, by reason.
    pub unreadable: Vec<ProbedRows>,
    /// Rows that are not mailboxes, by reason.
    pub dropped: Vec<ProbedRows>,
    /// Mailboxes with a quota that is not a number.
    pub unknown_quota: Option<ProbedRows>,
    /// Mailboxes with a quota below 1 MiB.
    pub small_quota: Option<ProbedRows>,
}

/// A reason why no password can match a hash, usually its scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScheme {
    /// The name, such as `{PLAIN}` or `MD5-CRYPT ($1$)`, without any part of a hash.
    pub name: String,
    /// Number of mailboxes with such a hash, among those looked at.
    pub mailboxes: usize,
    /// One of these mailboxes.
    pub example: EmailAddress,
}

/// Rows of the user database with the same fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedRows {
    /// What is wrong with them.
    pub fault: String,
    /// Their number.
    pub rows: usize,
    /// Some of their addresses, as the database spells them.
    pub examples: Vec<String>,
}

/// Rows by fault.
#[derive(Default)]
struct RowsByFault(BTreeMap<String, ProbedRows>);

impl RowsByFault {
    fn add(&mut self, fault: impl ToString, row: impl Into<String>) {
        let fault = fault.to_string();
        let new = || ProbedRows { fault: fault.clone(), rows: 0, examples: Vec::new() };
        let rows = self.0.entry(fault.clone()).or_insert_with(new);
        rows.rows += 1;
        if rows.examples.len() < EXAMPLES {
            rows.examples.push(row.into());
        }
    }

    fn all(self) -> Vec<ProbedRows> {
        self.0.into_values().collect()
    }

    fn only(self) -> Option<ProbedRows> {
        self.0.into_values().next()
    }
}

/// The faults of all rows, by what they mean for a mailbox.
#[derive(Default)]
struct ListFaults {
    unreadable: RowsByFault,
    dropped: RowsByFault,
    unknown_quota: RowsByFault,
    small_quota: RowsByFault,
}

impl ListFaults {
    fn add(&mut self, RowFault { row, kind }: RowFault) {
        match kind {
            RowFaultKind::NoAddress | RowFaultKind::OtherSpelling => self.dropped.add(kind, row),
            RowFaultKind::Details(_) | RowFaultKind::State(_) => self.unreadable.add(kind, row),
            RowFaultKind::Quota => self.unknown_quota.add(kind, row),
        }
    }

    fn add_quota(&mut self, mailbox: &DirectoryMailbox) {
        if matches!(mailbox.quota, DirectoryQuota::Bytes(bytes) if bytes < SMALLEST_QUOTA) {
            self.small_quota.add("its quota is below 1 MiB", mailbox.email.as_str());
        }
    }
}

impl Service {
    /// Runs the operator's queries, the one for passwords for at most 500 mailboxes; `None` without an external user
    /// database.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason if the list of mailboxes cannot be read.
    pub async fn probe_directory(&self) -> Result<Option<DirectoryProbe>, Unavailable> {
        let Some(directory) = self.0.store.directory() else { return Ok(None) };
        directory.ping().await.map_err(Unavailable::UserDatabase)?;
        let (mut faults, mut active, mut spellings) = (ListFaults::default(), Vec::new(), Vec::new());
        let mut probe = DirectoryProbe::default();
        let mut next = Some(DirectoryPlace::default());
        while let Some(place) = next {
            let page = directory.mailboxes(&place).await.map_err(Unavailable::UserDatabase)?;
            page.faults.into_iter().for_each(|fault| faults.add(fault));
            for mailbox in page.mailboxes {
                faults.add_quota(&mailbox);
                probe.mailboxes += 1;
                probe.first.get_or_insert_with(|| mailbox.email.clone());
                active.extend(mailbox.active.then_some(mailbox.email));
            }
            spellings.extend(page.spellings);
            next = page.next;
        }
        self.probe_passwords(directory, &sample(&active), &mut probe).await?;
        probe.not_found = not_found(directory, &spellings).await?;
        let ListFaults { unreadable, dropped, unknown_quota, small_quota } = faults;
        (probe.unreadable, probe.dropped) = (unreadable.all(), dropped.all());
        (probe.unknown_quota, probe.small_quota) = (unknown_quota.only(), small_quota.only());
        Ok(Some(probe))
    }

    /// Looks at the passwords of these mailboxes. A local account uses its own password instead.
    async fn probe_passwords(
        &self,
        directory: &Directory,
        mailboxes: &[&EmailAddress],
        probe: &mut DirectoryProbe,
    ) -> Result<(), Unavailable> {
        let (mut schemes, mut failed, mut without) = (BTreeMap::new(), RowsByFault::default(), RowsByFault::default());
        probe.sampled = mailboxes.len();
        for &email in mailboxes {
            let password = match directory.password(email).await {
                Ok(password) => password,
                Err(error) if error.is_unavailable() => return Err(Unavailable::UserDatabase(error)),
                Err(error) => {
                    failed.add(error, email.as_str());
                    continue;
                }
            };
            let name = password.as_ref().and_then(hash_fault);
            let is_usable = password.is_some() && name.is_none();
            if is_usable || self.0.store.copies().is_copy(email).await? == Some(false) {
                continue;
            }
            match name {
                None => without.add("it is active, but has no password there", email.as_str()),
                Some(name) => {
                    let scheme = UnknownScheme { name: name.clone(), mailboxes: 0, example: email.clone() };
                    schemes.entry(name).or_insert(scheme).mailboxes += 1;
                }
            }
        }
        probe.unknown_schemes = schemes.into_values().collect();
        (probe.failed_passwords, probe.without_password) = (failed.all(), without.only());
        Ok(())
    }
}

/// Returns at most [`SAMPLE`] mailboxes, evenly spread: installations often change their scheme at some time.
fn sample(mailboxes: &[EmailAddress]) -> Vec<&EmailAddress> {
    mailboxes.iter().step_by(mailboxes.len().div_ceil(SAMPLE).max(1)).collect()
}

/// Looks up the addresses of rows that are spelled differently; returns those that the database does not find.
async fn not_found(
    directory: &Directory,
    spellings: &[(String, EmailAddress)],
) -> Result<Option<ProbedRows>, Unavailable> {
    let mut faults = RowsByFault::default();
    for (spelled, email) in spellings.iter().step_by(spellings.len().div_ceil(SAMPLE).max(1)) {
        match directory.mailbox(email).await {
            Ok(Some(_)) => {}
            Ok(None) => faults.add("its address is not in the form that logins look up", spelled.as_str()),
            Err(error) if error.is_unavailable() => return Err(Unavailable::UserDatabase(error)),
            // The list has named the row already.
            Err(_) => {}
        }
    }
    Ok(faults.only())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_mailboxes() {
        let all = |count: usize| -> Vec<EmailAddress> {
            (0..count).map(|number| format!("u{number:05}@example.org").parse().unwrap()).collect()
        };
        for count in [0, 1, SAMPLE] {
            assert_eq!(sample(&all(count)).len(), count);
        }
        let many = all(20_001);
        let sampled = sample(&many);
        assert!(sampled.len() <= SAMPLE && sampled.len() > SAMPLE / 2, "{}", sampled.len());
        assert!(sampled.last().unwrap().as_str() > "u19900");
    }
}
