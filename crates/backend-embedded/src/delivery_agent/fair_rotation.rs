//! Whose mail gets the next connection.

use std::collections::{HashMap, VecDeque};

use mailapi_model::EmailAddress;

use super::connect::Destination;
use crate::queue::QueuedMessage;

/// Whose mail it is. All mail without a sender, such as notices and automatic answers, has one author: strangers cause it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MailAuthor(Option<EmailAddress>);

impl MailAuthor {
    /// Returns the alias or mailbox that forwards the message, or else the mailbox that sent it, without its tag.
    pub(super) fn of(message: &QueuedMessage) -> Self {
        let forwarded_by = message.recipients.first().and_then(|recipient| recipient.forwarded_by.as_ref());
        let submitter = message.submitter.as_ref().map(|submitter| &submitter.mailbox);
        let address = forwarded_by.or(submitter).or(message.sender.as_ref());
        Self(address.map(|address| address.without_tag().unwrap_or_else(|| address.clone())))
    }
}

/// The destinations of each author's waiting mail. Authors take turns, and so do the destinations of an author.
#[derive(Debug, Default)]
pub(super) struct FairRotation {
    authors: VecDeque<MailAuthor>,
    destinations: HashMap<MailAuthor, VecDeque<Destination>>,
}

impl FairRotation {
    pub(super) fn push(&mut self, author: &MailAuthor, destination: Destination) {
        if !self.destinations.contains_key(author) {
            self.authors.push_back(author.clone());
        }
        self.destinations.entry(author.clone()).or_default().push_back(destination);
    }

    /// Removes and returns the next destination, of an author who may have a connection.
    pub(super) fn next(
        &mut self,
        may_start: impl Fn(&MailAuthor) -> bool,
        is_free: impl Fn(&Destination) -> bool,
    ) -> Option<(MailAuthor, Destination)> {
        let found = (0..self.authors.len()).find_map(|at| {
            let author = self.authors.get(at).filter(|author| may_start(author))?;
            let place = self.destinations.get(author)?.iter().position(&is_free)?;
            Some((at, place))
        });
        let (at, place) = found?;
        let author = self.authors.remove(at)?;
        let queue = self.destinations.get_mut(&author)?;
        let destination = queue.remove(place)?;
        if queue.is_empty() {
            self.destinations.remove(&author);
        } else {
            self.authors.push_back(author.clone());
        }
        Some((author, destination))
    }

    /// Forgets the mail of an author to a destination.
    pub(super) fn remove(&mut self, author: &MailAuthor, destination: &Destination) {
        let Some(queue) = self.destinations.get_mut(author) else { return };
        queue.retain(|one| one != destination);
        if queue.is_empty() {
            self.destinations.remove(author);
            self.authors.retain(|one| one != author);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(name: &str) -> MailAuthor {
        MailAuthor(Some(format!("{name}@here.example").parse().unwrap()))
    }

    fn domain(name: &str) -> Destination {
        Destination::Domain(format!("{name}.example").parse().unwrap())
    }

    #[test]
    fn authors_take_turns_and_so_do_their_destinations() {
        let mut rotation = FairRotation::default();
        let (ann, bob) = (author("ann"), author("bob"));
        for name in ["a", "b", "c"] {
            rotation.push(&ann, domain(name));
        }
        rotation.push(&bob, domain("d"));
        let order: Vec<_> = std::iter::from_fn(|| rotation.next(|_| true, |_| true)).collect();
        let expected =
            [(&ann, "a"), (&bob, "d"), (&ann, "b"), (&ann, "c")].map(|(who, name)| (who.clone(), domain(name)));
        assert_eq!(order, expected);
        assert!(rotation.authors.is_empty() && rotation.destinations.is_empty());
    }

    #[test]
    fn who_may_not_start_and_what_is_busy_is_passed_over() {
        let mut rotation = FairRotation::default();
        let (ann, bob) = (author("ann"), author("bob"));
        rotation.push(&ann, domain("a"));
        rotation.push(&bob, domain("busy"));
        rotation.push(&bob, domain("b"));
        let next = rotation.next(|who| *who != ann, |destination| *destination != domain("busy"));
        assert_eq!(next, Some((bob.clone(), domain("b"))));
        assert_eq!(rotation.next(|who| *who != ann, |destination| *destination != domain("busy")), None);
        rotation.remove(&bob, &domain("busy"));
        assert_eq!(rotation.next(|_| true, |_| true), Some((ann, domain("a"))));
        assert_eq!(rotation.next(|_| true, |_| true), None);
    }
}
