//! Messages for many mailboxes: all other writers wait for their transactions, so only one of them waits in the queue of the
//! writer at a time. Clients take turns.

use std::sync::Arc;

use mailapi_backend::Shared;
use mailapi_model::EmailAddress;
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::expansion::{Expanded, MOST};
use super::{AcceptError, Incoming, NotTogether};
use crate::MessageStore;
use crate::message_store::Touched;

/// Recipients, and addresses behind aliases and rules, of a message that needs no turn. They cost some milliseconds even if
/// each mailbox has the longest rules.
const NARROW: usize = 10;

/// For how many addresses a transaction stores a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageBreadth {
    /// For fewer than [`NARROW`]. It fails with [`AcceptError::TooWide`] if there are more.
    Narrow,
    /// For as many as a message may have.
    Wide,
}

impl MessageBreadth {
    /// Returns the number of addresses to which one recipient may expand.
    pub(super) const fn largest(self) -> usize {
        match self {
            Self::Narrow => NARROW,
            Self::Wide => MOST,
        }
    }

    /// Returns that of a message with these recipients, before any of them expands.
    const fn of(recipients: usize) -> Self {
        if recipients < NARROW { Self::Narrow } else { Self::Wide }
    }

    /// Checks the addresses to which the recipients of a message have expanded so far.
    pub(super) fn allows(self, expanded: &Expanded) -> Result<(), AcceptError> {
        match (self, Self::of(expanded.addresses())) {
            (Self::Narrow, Self::Wide) => Err(AcceptError::TooWide),
            _ => Ok(()),
        }
    }
}

/// A message that may need a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnClaim {
    recipients: usize,
    client: MessageClient,
}

/// Whose message it is. Strangers take turns with all others, and the clients of each group among themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageClient {
    /// With all networks of its subscriber.
    Stranger(String),
    /// `None` is this server.
    Mailbox(Option<EmailAddress>),
}

impl TurnClaim {
    pub(super) fn of(incoming: &Incoming) -> Self {
        let submitter = incoming.submitter.as_ref().map(|submitter| &submitter.mailbox);
        let mailbox = submitter.or(incoming.sender.as_ref());
        let client = match incoming.client {
            Some(client) => MessageClient::Stranger(client.subscriber()),
            None => MessageClient::Mailbox(mailbox.map(|one| one.without_tag().unwrap_or_else(|| one.clone()))),
        };
        Self { recipients: incoming.recipients.len(), client }
    }
}

impl Shared for TurnClaim {
    type Group = bool;
    type Member = MessageClient;

    fn group(&self) -> bool {
        matches!(self.client, MessageClient::Stranger(_))
    }

    fn member(&self) -> MessageClient {
        self.client.clone()
    }
}

/// An error of a transaction that accepts a message.
pub(crate) trait AcceptFailure: From<StoreError> + Send + 'static {
    /// Returns whether the message needs a turn.
    fn is_too_wide(&self) -> bool;
}

impl AcceptFailure for AcceptError {
    fn is_too_wide(&self) -> bool {
        matches!(self, Self::TooWide)
    }
}

impl AcceptFailure for NotTogether {
    fn is_too_wide(&self) -> bool {
        matches!(self, Self::Accept(error) if error.is_too_wide())
    }
}

impl MessageStore {
    /// Runs a transaction that accepts a message, like [`MessageStore::write`]: at once if the message is narrow, otherwise in
    /// its turn.
    pub(crate) async fn write_message<T, E, F>(&self, claim: TurnClaim, job: F) -> Result<T, E>
    where
        F: Fn(&Connection, &mut Touched, MessageBreadth) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: AcceptFailure,
    {
        let job = Arc::new(job);
        if MessageBreadth::of(claim.recipients) == MessageBreadth::Narrow {
            let narrow = Arc::clone(&job);
            match self.write(move |connection, touched| narrow(connection, touched, MessageBreadth::Narrow)).await {
                Err(error) if error.is_too_wide() => {}
                done => return done,
            }
        }
        let _turn = self.wide_turn(claim).await;
        self.write(move |connection, touched| job(connection, touched, MessageBreadth::Wide)).await
    }
}
