//! The envelope of a queued message as it goes over the wire.

use mailapi_smtp::client::Capabilities;
use mailapi_smtp::{Envelope, MailFrom, RcptTo};

use crate::queue::QueuedMessage;

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
