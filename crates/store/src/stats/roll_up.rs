//! Moves journal entries into the counts.

use super::Stats;
use super::counts::SentDelta;
use super::sums::Sums;
use crate::StoreError;
use crate::db::{Row, Stmt, count, exactly_one};

/// Limits of one roll-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollUpSize {
    /// Maximum entries from each journal.
    pub changes: usize,
    /// Maximum groups of entries with the same hour, sender and recipient domain. The writer's work depends
    /// on these: each group costs at most a dozen additions, regardless of its number of entries.
    pub groups: usize,
}

/// Result of a roll-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RolledUp {
    /// Number of journal entries counted.
    pub changes: usize,
    /// Whether more entries may be waiting.
    pub more: bool,
}

/// The oldest entries of one journal.
struct Noted {
    journal: &'static str,
    rows: Vec<Row<'static>>,
}

impl Stats<'_> {
    /// Counts the oldest entries of each journal and deletes them from it, in one transaction. If the
    /// journals are empty, it only reads.
    ///
    /// Several roll-ups may run at once. If two prepared the same entries, one is stored and the other
    /// changes nothing.
    ///
    /// # Errors
    /// When the database cannot be read or written; then nothing was counted.
    pub async fn roll_up_once(&self, size: RollUpSize) -> Result<RolledUp, StoreError> {
        let is_noted = "SELECT 1 WHERE EXISTS (SELECT 1 FROM status_changes) OR EXISTS (SELECT 1 FROM inbound_mail)";
        if self.0.first(Stmt::new(is_noted)).await?.is_none() {
            return Ok(RolledUp::default());
        }
        let most = size.changes.max(1);
        // The step and the entries come from one snapshot.
        let mut answers = self.0.scan(vec![step(), status_changes(most), inbound_mail(most)]).await?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let step = exactly_one(next())?.int()?;
        let sent = Noted { journal: "status_changes", rows: next() };
        let inbound = Noted { journal: "inbound_mail", rows: next() };
        let more = sent.rows.len() >= most || inbound.rows.len() >= most;
        let noted = sent.rows.len() + inbound.rows.len();

        // The guard comes first: it fails if another roll-up counted the same entries.
        let (mut sums, mut statements) = (Sums::default(), vec![take_step(step)]);
        let counted = sent.count(size.groups, &mut sums, count_sent, &mut statements)?
            + inbound.count(size.groups, &mut sums, count_inbound, &mut statements)?;
        statements.extend(sums.into_statements());
        // A power failure undoes counts and deletions together, so no entry is lost.
        match self.0.batch_in_order(statements).await {
            Err(error) if error.is_guard_failed() => Ok(RolledUp { changes: 0, more: true }),
            stored => stored.map(|_| RolledUp { changes: counted, more: more || counted < noted }),
        }
    }
}

impl Noted {
    /// Counts entries until there are `groups` sums, at least one entry; returns their number. Adds the
    /// statements that delete exactly these entries from the journal.
    fn count(
        self,
        groups: usize,
        sums: &mut Sums,
        count_row: impl Fn(Row, &mut Sums) -> Result<(), StoreError>,
        statements: &mut Vec<Stmt>,
    ) -> Result<usize, StoreError> {
        let Self { journal, rows } = self;
        let (mut counted, mut runs) = (0, Vec::<Run>::new());
        for mut row in rows {
            // Always count one entry, or the journal would never shrink.
            if counted > 0 && sums.groups() >= groups {
                break;
            }
            let id = row.int()?;
            match runs.last_mut().filter(|run| run.last + 1 == id) {
                Some(run) => run.last = id,
                None => runs.push(Run { first: id, last: id }),
            }
            count_row(row, sums)?;
            counted += 1;
        }
        statements.extend(runs.iter().map(|run| run.forget(journal)));
        Ok(counted)
    }
}

/// A gapless range of counted entries. An id missing between two ranges may belong to an uncommitted
/// transaction, so its entry must stay for a later roll-up.
struct Run {
    first: i64,
    last: i64,
}

impl Run {
    fn forget(&self, journal: &str) -> Stmt {
        let entries = self.last.abs_diff(self.first) + 1;
        let statement = Stmt::new(format!("DELETE FROM {journal} WHERE id >= $1 AND id <= $2"));
        statement.bind(self.first).bind(self.last).demand(entries)
    }
}

fn step() -> Stmt {
    Stmt::new("SELECT step FROM roll_ups")
}

/// Returns the guard of a roll-up. Journal ids would not do: an emptied journal may restart them.
fn take_step(step: i64) -> Stmt {
    Stmt::new("UPDATE roll_ups SET step = step + 1 WHERE step = $1").bind(step).demand(1)
}

fn status_changes(most: usize) -> Stmt {
    Stmt::new(
        "SELECT status_changes.id, created_at, sender, email, status_before, status_after, refused \
         FROM status_changes LEFT JOIN sent_messages ON sent_messages.id = sent_id \
         ORDER BY status_changes.id LIMIT $1",
    )
    .bind(count(most))
}

fn inbound_mail(most: usize) -> Stmt {
    Stmt::new("SELECT id, at, domain, sender_domain, outcome FROM inbound_mail ORDER BY id LIMIT $1").bind(count(most))
}

fn count_sent(mut row: Row, sums: &mut Sums) -> Result<(), StoreError> {
    // A message that was deleted meanwhile is no longer counted.
    let (Some(at), Some(sender)) = (row.time_or_null()?, row.text_or_null()?) else { return Ok(()) };
    let recipient = row.text()?;
    // A rejected recipient stays rejected, so the state before the change was never a rejection.
    let before = SentDelta::of(row.parsed()?, false);
    let after = SentDelta::of(row.parsed()?, row.bool()?);
    sums.change_sent(at, sender, &recipient, before, after);
    Ok(())
}

fn count_inbound(mut row: Row, sums: &mut Sums) -> Result<(), StoreError> {
    let (at, domain, sender_domain) = (row.time()?, row.text()?, row.text_or_null()?);
    sums.add_inbound(at, domain, sender_domain, row.parsed()?);
    Ok(())
}
