//! The SMTP envelope of a queued message.

use mailapi_model::EmailAddress;
use mailapi_smtp::{Envelope, MailFrom, RcptTo};

use super::Inner;
use crate::queue::QueuedMessage;

impl Inner {
    /// Returns the reverse-path for an outbound message: its return address, or the author if bounces do not reach this
    /// server. If another provider has the mail of the author's domain, a return address would lose every bounce. Mail
    /// that an alias forwards gets an address of the alias's domain, unless it was submitted here: the sender of mail from
    /// outside may be forged, also one in a domain of this server.
    pub(super) async fn reverse_path(&self, message: &QueuedMessage) -> String {
        let Some(sender) = &message.sender else { return String::new() };
        if let Some(alias) = message.recipients.iter().find_map(|recipient| recipient.forwarded_by.as_ref())
            && (message.from_outside || !self.is_here(sender).await)
        {
            return self.message_store.forwarded_as(sender, &alias.domain());
        }
        let authors = || sender.wire().into_owned();
        let Some(own) = self.message_store.return_address(message) else { return authors() };
        let now = self.message_store.clock().now();
        let comes_here = self.return_hosts.comes_to(&self.hostname, sender.domain_str(), &*self.dns, now).await;
        if comes_here { own } else { authors() }
    }

    /// Returns whether the address is in a domain of this server.
    pub(super) async fn is_here(&self, address: &EmailAddress) -> bool {
        self.message_store.is_local_domain(&address.domain()).await.unwrap_or(false)
    }
}

/// Returns the envelope of a message with this reverse-path.
pub(super) fn envelope(message: &QueuedMessage, reverse_path: String) -> Envelope {
    let mut mail = MailFrom::new(reverse_path);
    // A message with UTF-8 in its header needs a server that announces it, or is converted (RFC 6531 section 3.2). A plain
    // message needs nothing.
    mail.smtputf8 = true;
    mail.ret = message.ret;
    mail.envid.clone_from(&message.envid);
    let recipients = message.recipients.iter().map(|recipient| RcptTo {
        forward_path: recipient.address.wire().into_owned(),
        notify: recipient.notify,
        orcpt: recipient.orcpt.clone(),
    });
    Envelope { mail, recipients: recipients.collect() }
}
