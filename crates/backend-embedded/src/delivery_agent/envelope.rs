//! The SMTP envelope of a queued message.

use mailapi_smtp::client::Capabilities;
use mailapi_smtp::{Envelope, MailFrom, RcptTo};

use super::Inner;
use crate::queue::QueuedMessage;

impl Inner {
    /// Returns the reverse-path for an outbound message: its return address, or the author if bounces do not
    /// reach this server. With mail of the author's domain at another provider, a return address would lose
    /// every bounce.
    pub(super) async fn reverse_path(&self, message: &QueuedMessage) -> String {
        let Some(sender) = &message.sender else { return String::new() };
        let authors = || sender.wire().into_owned();
        let Some(own) = self.message_store.return_address(message) else { return authors() };
        let now = self.message_store.clock().now();
        let comes_here = self.return_hosts.comes_to(&self.hostname, sender.domain_str(), &*self.dns, now).await;
        if comes_here { own } else { authors() }
    }
}

/// Returns the envelope for a server with these capabilities.
pub(super) fn envelope(message: &QueuedMessage, reverse_path: String, offered: Capabilities) -> Envelope {
    let mut mail = MailFrom::new(reverse_path);
    // Announces international header fields if the server supports them; otherwise only an international
    // address prevents relaying.
    mail.smtputf8 = offered.smtputf8;
    mail.ret = message.ret;
    mail.envid.clone_from(&message.envid);
    let recipients = message.recipients.iter().map(|recipient| RcptTo {
        forward_path: recipient.address.wire().into_owned(),
        notify: recipient.notify,
        orcpt: recipient.orcpt.clone(),
    });
    Envelope { mail, recipients: recipients.collect() }
}
