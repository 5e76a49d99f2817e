//! The envelope of a queued message as it goes over the wire.

use mailapi_smtp::client::Capabilities;
use mailapi_smtp::{Envelope, MailFrom, RcptTo};

use super::Inner;
use crate::queue::QueuedMessage;

impl Inner {
    /// The reverse-path that a message leaves with. A return address would lose every bounce where mail for the author's
    /// domain goes to another provider, so the bounces go to the author there.
    pub(super) async fn reverse_path(&self, message: &QueuedMessage) -> String {
        let Some(sender) = &message.sender else { return String::new() };
        let authors = || sender.wire().into_owned();
        let Some(own) = self.message_store.return_address(message) else { return authors() };
        let now = self.message_store.clock().now();
        let comes_here = self.return_hosts.comes_to(&self.hostname, sender.domain_str(), &*self.dns, now).await;
        if comes_here { own } else { authors() }
    }
}

/// What MAIL and RCPT say to a server with these capabilities.
pub(super) fn envelope(message: &QueuedMessage, reverse_path: String, offered: Capabilities) -> Envelope {
    let mut mail = MailFrom::new(reverse_path);
    // International headers are announced where they are understood; elsewhere only an address forbids to go on.
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
