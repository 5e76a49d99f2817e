//! Bounces from other servers for messages that came through the API (RFC 3464).
//!
//! Anyone can forge a bounce, so it counts only if it is plausible. It must come from outside, with the null
//! reverse-path, to the return address of the message (`return_path`). It must also name a recipient whose
//! server accepted the message. The queue has that information: the message has not left for recipients that
//! are still queued. Recipients that the queue abandons are removed in the transaction that records the
//! failure. Each recipient and each member of an alias can bounce once; addresses behind them, any number of times.

use std::io;

use mailapi_backend::ReturnedNotice;
use mailapi_backend::mime::{
    MessageStructure, NoticeSummary, ReturnedAction, ReturnedMail, ReturnedReport, returned_mail_in,
};
use mailapi_model::{
    Blob, DeliveryEvent, EmailAddress, EnhancedCode, Evidence, MessageId, Outcome, QueueId, Timestamp,
};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Recipient;
use crate::feed;
use crate::message_store::{Touched, damaged};
use crate::replies::one_line;

/// Maximum length in characters of the stored diagnostic text of the other server.
const MAX_RESPONSE: usize = 1_000;

/// Failed addresses that are kept with a notice that changes no status.
const MAX_NAMED: usize = 100;

/// Separator of the lines in the column `left_for`; no address contains it.
const SEPARATOR: &str = "\n";

/// Separator of an alias and its member in a line of `left_for`; no address contains it.
const BEFORE_MEMBER: char = '\t';

/// An address that another server gets the message for, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftFor {
    /// The recipient that the sender named.
    recipient: String,
    /// The member at another server, if the recipient is an alias.
    member: Option<String>,
}

impl LeftFor {
    pub(crate) fn new(recipient: &EmailAddress, member: Option<&EmailAddress>) -> Self {
        let member = member.map(|member| member.as_str().to_owned());
        Self { recipient: recipient.as_str().to_owned(), member }
    }

    fn is(&self, recipient: &EmailAddress, member: Option<&EmailAddress>) -> bool {
        self.recipient == recipient.as_str() && self.member.as_deref() == member.map(EmailAddress::as_str)
    }

    /// Returns whether a server got the message for this address.
    fn is_for(&self, address: &EmailAddress) -> bool {
        self.member.as_ref().unwrap_or(&self.recipient) == address.as_str()
    }

    fn parse(line: &str) -> Self {
        match line.split_once(BEFORE_MEMBER) {
            Some((recipient, member)) => Self { recipient: recipient.to_owned(), member: Some(member.to_owned()) },
            None => Self { recipient: line.to_owned(), member: None },
        }
    }

    fn line(&self) -> String {
        let member = self.member.as_ref().map(|member| format!("{BEFORE_MEMBER}{member}"));
        format!("{}{}", self.recipient, member.unwrap_or_default())
    }
}

/// A message that was accepted from the API.
struct Sent {
    id: MessageId,
    queue_id: QueueId,
    accepted_at: Timestamp,
    /// Remote recipients and members that have neither failed nor bounced.
    left_for: Vec<LeftFor>,
    /// Those that are still in the queue, with the end of each claim.
    waiting: Vec<(LeftFor, Timestamp)>,
}

impl Sent {
    /// Returns the positions in `left_for` that a failure may concern, the likeliest first.
    ///
    /// A server that received an ORCPT names the alias and the member; one that received none names the member alone. An
    /// alias without a member is never meant: no server got the message for the alias itself.
    fn candidates(&self, failure: &ReturnedReport) -> Vec<usize> {
        let (named, tried) = (&failure.recipient, failure.final_recipient.as_ref());
        let places = |is_meant: &dyn Fn(&LeftFor) -> bool| -> Vec<usize> {
            (0..self.left_for.len()).filter(|place| is_meant(&self.left_for[*place])).collect()
        };
        let mut found = places(&|left| left.is(named, tried));
        match tried {
            Some(tried) if found.is_empty() => {
                // The recipient or a member represents others at its server.
                found = places(&|left| left.recipient == named.as_str());
                if found.is_empty() { places(&|left| left.is_for(tried)) } else { found }
            }
            Some(_) => found,
            None => {
                found.extend(places(&|left| left.member.as_deref() == Some(named.as_str())));
                found
            }
        }
    }

    /// Returns the position in `left_for` that a failure concerns, if another server accepted the message for it.
    fn place_of(&self, failure: &ReturnedReport) -> Option<usize> {
        let waits = |place: &usize| self.waiting.iter().any(|(left, _)| *left == self.left_for[*place]);
        self.candidates(failure).into_iter().find(|place| !waits(place))
    }

    /// Returns whether a failure can be decided only after a delivery attempt in progress: another server may already
    /// have accepted the message.
    fn is_early(&self, failure: &ReturnedReport, now: Timestamp) -> bool {
        let is_claimed = |place: usize| {
            let left = &self.left_for[place];
            self.waiting.iter().any(|(waiting, leased_until)| waiting == left && *leased_until > now)
        };
        self.place_of(failure).is_none() && self.candidates(failure).into_iter().any(is_claimed)
    }

    /// Returns whether the failure is that of the recipient or the member itself, and not of an address behind it.
    fn is_final(&self, place: usize, failure: &ReturnedReport) -> bool {
        let left = &self.left_for[place];
        let tried = failure.final_recipient.as_ref().map(EmailAddress::as_str);
        match &left.member {
            Some(member) => tried.is_none_or(|tried| tried == member),
            None => tried.is_none(),
        }
    }
}

/// Reads a message as a notice, in whatever form, and keeps only the reports of failures. May block.
pub(super) fn read(message: &Blob, structure: &MessageStructure) -> io::Result<ReturnedMail> {
    let mut returned = returned_mail_in(message, structure)?;
    returned.reports.retain(|report| report.action == ReturnedAction::Failed);
    Ok(returned)
}

/// Formats addresses for the column `left_for`.
pub(super) fn to_column(addresses: impl IntoIterator<Item = LeftFor>) -> String {
    addresses.into_iter().map(|left| left.line()).collect::<Vec<_>>().join(SEPARATOR)
}

/// Parses the column `left_for`.
fn from_column(column: &str) -> Vec<LeftFor> {
    column.split_terminator(SEPARATOR).map(LeftFor::parse).collect()
}

/// Removes the addresses that the queue has abandoned: the message never left for them. Must run in the
/// transaction in which the queue records it.
pub(crate) fn give_up(connection: &Connection, id: MessageId, given_up: &[LeftFor]) -> Result<(), StoreError> {
    if given_up.is_empty() {
        return Ok(());
    }
    let sql = "SELECT left_for FROM drop_accepted WHERE message_uuid = ?1";
    let known = connection.prepare_cached(sql)?.query_row(params![id.to_string()], |row| row.get::<_, String>(0));
    let Some(known) = known.optional()? else { return Ok(()) };
    let mut left_for = from_column(&known);
    left_for.retain(|known| !given_up.contains(known));
    write(connection, id, left_for)
}

/// Returns whether a failure concerns a recipient whose delivery attempt is in progress. It can be verified
/// only when the queue has recorded the result.
pub(super) fn come_early(
    connection: &Connection,
    at: &Recipient,
    failures: &[ReturnedReport],
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some(sent) = sent(connection, at)?.filter(|_| !failures.is_empty()) else { return Ok(false) };
    Ok(failures.iter().any(|failure| sent.is_early(failure, now)))
}

/// Appends an event for each plausible failure; the notice itself if there is none.
pub(super) fn record(
    connection: &Connection,
    at: &Recipient,
    returned: &ReturnedMail,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let Some(mut sent) = sent(connection, at)? else { return Ok(()) };
    let (before, mut is_noted) = (sent.left_for.len(), false);
    for failure in &returned.reports {
        let Some(place) = sent.place_of(failure) else { continue };
        let event = event(&at.address, failure, (&sent, &sent.left_for[place]), now);
        if sent.is_final(place, failure) {
            sent.left_for.remove(place);
        }
        feed::append(connection, &event, None, touched)?;
        is_noted = true;
    }
    if !is_noted {
        feed::append_notice(connection, &notice(sent.id, returned, now), touched)?;
    }
    if sent.left_for.len() < before {
        write(connection, sent.id, sent.left_for)?;
    }
    Ok(())
}

/// Returns the sender of a message.
pub(crate) fn sender_of(connection: &Connection, id: MessageId) -> Result<Option<EmailAddress>, StoreError> {
    let sql = "SELECT sender FROM drop_accepted WHERE message_uuid = ?1";
    let sender: Option<Option<String>> =
        connection.prepare_cached(sql)?.query_row(params![id.to_string()], |row| row.get(0)).optional()?;
    Ok(sender.flatten().and_then(|sender| sender.parse().ok()))
}

/// Returns the message whose return address led to this mailbox.
fn sent(connection: &Connection, at: &Recipient) -> Result<Option<Sent>, StoreError> {
    let Some(id) = at.returned else { return Ok(None) };
    let sql = "SELECT queue_id, accepted_at, left_for FROM drop_accepted WHERE message_uuid = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(Sent {
            id,
            queue_id: QueueId(row.get(0)?),
            accepted_at: Timestamp::from_millis(row.get(1)?),
            left_for: from_column(row.get_ref(2)?.as_str()?),
            waiting: Vec::new(),
        })
    };
    let Some(sent) = statement.query_row(params![id.to_string()], read).optional()? else {
        return Ok(None);
    };
    let sql = "SELECT recipient, forwarded_by, leased_until FROM drop_queue_recipients
        WHERE queue = (SELECT id FROM drop_queue WHERE queue_id = ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    let waiting = statement.query_and_then(params![sent.queue_id.0], |row| -> Result<_, StoreError> {
        // The queue stores recipients as given; the comparison needs the canonical form.
        let address = |text: String| text.parse::<EmailAddress>().map_err(|_| damaged("an address"));
        let (tried, alias) = (address(row.get(0)?)?, row.get::<_, Option<String>>(1)?.map(address).transpose()?);
        let left = match &alias {
            Some(alias) => LeftFor::new(alias, Some(&tried)),
            None => LeftFor::new(&tried, None),
        };
        Ok((left, Timestamp::from_millis(row.get(2)?)))
    })?;
    Ok(Some(Sent { waiting: waiting.collect::<Result<_, _>>()?, ..sent }))
}

fn write(connection: &Connection, id: MessageId, left_for: Vec<LeftFor>) -> Result<(), StoreError> {
    let sql = "UPDATE drop_accepted SET left_for = ?2 WHERE message_uuid = ?1";
    connection.prepare_cached(sql)?.execute(params![id.to_string(), to_column(left_for)])?;
    Ok(())
}

/// Returns what a mail says otherwise.
fn notice(message_id: MessageId, returned: &ReturnedMail, at: Timestamp) -> ReturnedNotice {
    let NoticeSummary { kind, server, text } = returned.summary.clone();
    let failed = returned.reports.iter().flat_map(|report| [Some(&report.recipient), report.final_recipient.as_ref()]);
    ReturnedNotice { at, message_id, kind, server, text, failed: failed.flatten().take(MAX_NAMED).cloned().collect() }
}

/// Returns the event of a failure. It names the alias and the member, whichever of them the other server named.
fn event(
    mailbox: &EmailAddress,
    failure: &ReturnedReport,
    (message, left): (&Sent, &LeftFor),
    now: Timestamp,
) -> DeliveryEvent {
    let parsed = |text: &String| text.parse::<EmailAddress>().ok();
    let member = || left.member.as_ref().and_then(parsed);
    // Some servers name an original recipient that they were not given, beside the right final one. Only those that know
    // all recipients of the message can tell it from one that was delivered here.
    let is_named = left.recipient == failure.recipient.as_str() || left.is_for(&failure.recipient);
    let recipient = parsed(&left.recipient).filter(|_| is_named);
    let said: String = one_line(&failure.diagnostic).chars().take(MAX_RESPONSE).collect();
    let response = if said.is_empty() { "returned by another server".to_owned() } else { said };
    DeliveryEvent {
        at: now,
        message_id: Some(message.id),
        queue_id: message.queue_id.clone(),
        sender: Some(mailbox.clone()),
        recipient: recipient.unwrap_or_else(|| failure.recipient.clone()),
        final_recipient: failure.final_recipient.clone().or_else(member),
        outcome: Outcome::Bounced,
        evidence: Evidence::ReturnedMail,
        dsn: Some(failure.status.unwrap_or(EnhancedCode::new(5, 0, 0))),
        response,
        relay: None,
        delay: now.since(message.accepted_at),
        next_attempt_at: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_column_is_read_as_it_was_written(pairs in prop::collection::vec(("[a-z+ ]{1,9}", prop::option::of("[a-z\" ]{1,9}")), 0..9)) {
            let left: Vec<_> = pairs.into_iter().map(|(recipient, member)| LeftFor { recipient, member }).collect();
            prop_assert_eq!(from_column(&to_column(left.clone())), left);
        }

        #[test]
        fn any_column_can_be_read(column: String) {
            let _ = from_column(&column);
        }
    }
}
