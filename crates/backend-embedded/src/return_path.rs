//! The envelope senders of outgoing messages. One from the API has a return address whose bounces are delivered to the
//! message's sender. One that an alias forwards has a return address from which bounces go back to its sender.
//!
//! A Message-ID is visible to everyone who gets the message quoted or forwarded. The return address is
//! visible only to the recipients of the message and to the servers on its path. A bounce is therefore
//! accepted at that address only.

use mailapi_backend::{ReturnAddress, RewrittenSenderError, SenderRewriting};
use mailapi_model::{DomainName, EmailAddress, MessageId};
use mailapi_store::StoreError;

use crate::MessageStore;
use crate::accept::sender_of;
use crate::queue::QueuedMessage;

/// Local part of a return address, before its detail. It is not a mailbox: the proof alone makes the address
/// valid.
const LOCAL: &str = "bounces";
const DELIMITER: char = '+';

impl MessageStore {
    /// Returns the return address of a message; `None` if the message did not come from the API.
    pub(crate) fn return_address(&self, message: &QueuedMessage) -> Option<String> {
        let (sender, id) = (message.sender.as_ref()?, message.message_id?);
        Some(self.return_addresses(&sender.domain())?.of(id))
    }

    /// Returns the message of a return address, and the mailbox that receives its bounces.
    pub(crate) async fn returned_to(
        &self,
        address: &EmailAddress,
    ) -> Result<Option<(MessageId, EmailAddress)>, StoreError> {
        let addresses = self.return_addresses(&address.domain());
        let Some(id) = addresses.and_then(|addresses| addresses.message_id_of(address)) else { return Ok(None) };
        let sender = self.read(move |connection| sender_of(connection, id)).await?;
        // The proof is valid in every domain, but the address is only used in the sender's domain.
        let sender = sender.filter(|sender| sender.domain_str() == address.domain_str());
        Ok(sender.map(|sender| (id, sender)))
    }

    /// Returns the envelope sender of mail that an alias of this domain forwards. Without a return address, the message
    /// has the null reverse-path: a lost bounce is better than a refusal by SPF.
    pub(crate) fn forwarded_as(&self, sender: &EmailAddress, domain: &DomainName) -> String {
        let rewritten = self.rewriting().and_then(|scheme| scheme.rewritten(sender, domain, self.clock().now()));
        rewritten.map(|address| address.wire().into_owned()).unwrap_or_default()
    }

    /// Returns the sender that receives bounces to this address; `None` if it is no return address of forwarded mail.
    ///
    /// # Errors
    /// If it is one, and must not be used.
    pub(crate) fn forwarded_for(&self, address: &EmailAddress) -> Option<Result<EmailAddress, RewrittenSenderError>> {
        self.rewriting()?.sender_in(address, self.clock().now())
    }

    fn rewriting(&self) -> Option<SenderRewriting> {
        self.settings().return_key.as_ref().map(SenderRewriting::new)
    }

    /// Returns the return addresses in the sender's domain, so that SPF aligns with the author's domain (RFC
    /// 7489 section 3.1.2).
    fn return_addresses(&self, domain: &DomainName) -> Option<ReturnAddress> {
        let mailbox = format!("{LOCAL}@{domain}").parse().ok()?;
        ReturnAddress::new(mailbox, DELIMITER, self.settings().return_key.as_ref()?).ok()
    }
}
