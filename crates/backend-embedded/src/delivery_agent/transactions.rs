//! Splits recipients into transactions.

use std::collections::{BTreeMap, HashSet};

use mailapi_model::EmailAddress;
use mailapi_smtp::client::{Outcome, ServerLimits};

use super::attempt_outcome::AttemptOutcome;
use crate::queue::{QueuedMessage, QueuedRecipient};

/// The results of one transaction.
pub(super) struct Settled {
    /// The message with the recipients that have a result.
    pub(super) message: QueuedMessage,
    /// One result for each of them.
    pub(super) attempt_outcomes: Vec<AttemptOutcome>,
    /// Recipients for which the transaction had no room. Those that have a result are not among them.
    pub(super) rest: Vec<QueuedRecipient>,
}

impl Settled {
    /// Returns the same result for all recipients.
    pub(super) fn all(message: &QueuedMessage, attempt_outcome: &AttemptOutcome) -> Self {
        let attempt_outcomes = vec![attempt_outcome.clone(); message.recipients.len()];
        Self { message: message.clone(), attempt_outcomes, rest: Vec::new() }
    }

    /// Returns the results of a transaction with the first recipients of the message. Those that were too many join the
    /// rest.
    pub(super) fn of(message: &QueuedMessage, outcome: &Outcome, attempt_outcomes: Vec<AttemptOutcome>) -> Self {
        let mut settled = Self {
            message: QueuedMessage { recipients: Vec::new(), ..message.clone() },
            attempt_outcomes: Vec::new(),
            rest: Vec::new(),
        };
        let mut attempt_outcomes = attempt_outcomes.into_iter();
        for (place, recipient) in message.recipients.iter().cloned().enumerate() {
            match attempt_outcomes.next().filter(|_| !outcome.is_surplus(place)) {
                Some(attempt_outcome) => {
                    settled.message.recipients.push(recipient);
                    settled.attempt_outcomes.push(attempt_outcome);
                }
                None => settled.rest.push(recipient),
            }
        }
        settled
    }
}

/// Splits recipients into transactions of at most `max`. Forwarded mail has another envelope sender, which depends on the
/// domain of the alias, and fields that name the aliases that lead to the recipient.
pub(super) fn transactions(recipients: &[QueuedRecipient], max: usize) -> Vec<Vec<QueuedRecipient>> {
    let mut by_alias: BTreeMap<Vec<&str>, Vec<QueuedRecipient>> = BTreeMap::new();
    for recipient in recipients {
        let aliases = recipient.forwarded_by.iter().chain(&recipient.through).map(EmailAddress::as_str);
        by_alias.entry(aliases.collect()).or_default().push(recipient.clone());
    }
    by_alias.values().flat_map(|recipients| recipients.chunks(max)).map(<[_]>::to_vec).collect()
}

/// Returns how many of these addresses, at least one, the server takes in one transaction (RFC 9422 section 5).
pub(super) fn room<'a>(addresses: impl Iterator<Item = &'a EmailAddress>, limits: ServerLimits) -> usize {
    let most = limits.recipients.unwrap_or(usize::MAX);
    let Some(most_domains) = limits.domains else { return addresses.take(most).count().max(1) };
    let mut domains = HashSet::new();
    let fits = |address: &&EmailAddress| {
        domains.insert(address.domain());
        domains.len() <= most_domains
    };
    addresses.take(most).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room_for(addresses: &[&str], recipients: Option<usize>, domains: Option<usize>) -> usize {
        let addresses: Vec<EmailAddress> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        room(addresses.iter(), ServerLimits { recipients, domains, transactions: None })
    }

    #[test]
    fn a_transaction_has_room_for_what_the_server_announces() {
        let all = ["a@x.example", "b@x.example", "c@y.example", "d@x.example"];
        assert_eq!(room_for(&all, None, None), 4);
        assert_eq!(room_for(&all, Some(3), None), 3);
        assert_eq!(room_for(&all, Some(9), Some(1)), 2);
        assert_eq!(room_for(&all, Some(1), Some(1)), 1);
        assert_eq!(room_for(&all, None, Some(2)), 4);
    }
}
