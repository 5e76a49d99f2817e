//! Where the bounces of a message from the API go: an address of its own, which leads to the mailbox of its sender.
//!
//! A Message-ID is known to all who saw the message quoted or forwarded. The return address is known to those who got
//! the message itself, and to the servers on its way, so only a bounce that comes to it is believed.

use mailapi_backend::ReturnAddress;
use mailapi_model::{DomainName, EmailAddress, MessageId};
use mailapi_store::StoreError;

use crate::Maildrop;
use crate::accept::sender_of;
use crate::queue::QueuedMessage;

/// The part of a return address in front of its detail. It is no mailbox: the proof alone makes the address valid.
const LOCAL: &str = "bounces";
const DELIMITER: char = '+';

impl Maildrop {
    /// The reverse-path that a message leaves with.
    pub(crate) fn reverse_path(&self, message: &QueuedMessage) -> String {
        let Some(sender) = &message.sender else { return String::new() };
        let own = message.message_id.and_then(|id| Some(self.return_addresses(&sender.domain())?.of(id)));
        own.unwrap_or_else(|| sender.as_str().to_owned())
    }

    /// The message whose return address this is, and the mailbox that it leads to.
    pub(crate) async fn returned_to(
        &self,
        address: &EmailAddress,
    ) -> Result<Option<(MessageId, EmailAddress)>, StoreError> {
        let addresses = self.return_addresses(&address.domain());
        let Some(id) = addresses.and_then(|addresses| addresses.message_id_of(address)) else { return Ok(None) };
        let sender = self.read(move |connection| sender_of(connection, id)).await?;
        Ok(sender.map(|sender| (id, sender)))
    }

    /// In the sender's own domain, so that SPF speaks for the author (RFC 7489 section 3.1.2).
    fn return_addresses(&self, domain: &DomainName) -> Option<ReturnAddress> {
        let mailbox = format!("{LOCAL}@{domain}").parse().ok()?;
        ReturnAddress::new(mailbox, DELIMITER, self.settings().return_key.as_ref()?).ok()
    }
}
