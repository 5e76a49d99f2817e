//! Who may send to whom from outside.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply};

use super::InboundSetup;
use crate::Maildrop;
use crate::accept::{RecipientCheck, Relaying};
use crate::replies::to_wire;
use crate::smtp_session::{Delivery, Host, forward_path, reverse_path, take_over, too_many_hops};

pub(super) struct InboundHost<'a> {
    maildrop: Maildrop,
    setup: &'a InboundSetup,
    peer: IpAddr,
    /// How long the client says the message is; the verdict on a recipient depends on the room that is left.
    size: u64,
}

impl<'a> InboundHost<'a> {
    pub(super) const fn new(maildrop: Maildrop, setup: &'a InboundSetup, peer: IpAddr) -> Self {
        Self { maildrop, setup, peer, size: 0 }
    }
}

#[async_trait]
impl Host for InboundHost<'_> {
    async fn may_send(&mut self, mail: &MailFrom) -> Answer {
        self.size = mail.size.unwrap_or_default();
        match reverse_path(mail) {
            Ok(_) => Answer::Accept,
            Err(refusal) => Answer::Refuse(refusal),
        }
    }

    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer {
        let address = match forward_path(recipient, &self.setup.hostname, self.setup.postmaster.as_ref()) {
            Ok(address) => address,
            Err(refusal) => return Answer::Refuse(refusal),
        };
        match self.maildrop.check_recipient(&address, self.size, Relaying::Denied).await {
            Ok(RecipientCheck::Local | RecipientCheck::Remote) => Answer::Accept,
            Ok(RecipientCheck::Refused(reply)) => Answer::Refuse(to_wire(&reply)),
            Err(error) => {
                tracing::error!(%error, "a recipient could not be looked up");
                Answer::Refuse(Reply::new(451, (4, 3, 0), "The recipient cannot be looked up at the moment"))
            }
        }
    }

    /// The session does not offer AUTH here, so nobody is asked.
    async fn log_in(&mut self, _credentials: Credentials) -> Answer {
        Answer::bad_credentials()
    }

    async fn take(&mut self, message: Message) -> Answer {
        if let Some(refusal) = too_many_hops(&message.data, self.setup.settings.max_hops) {
            return Answer::Refuse(refusal);
        }
        let delivery = Delivery {
            maildrop: &self.maildrop,
            hostname: &self.setup.hostname,
            postmaster: self.setup.postmaster.as_ref(),
            peer: self.peer,
            relaying: Relaying::Denied,
            max_returned_bytes: self.setup.max_returned_bytes,
        };
        take_over(&delivery, message).await
    }

    fn tls_established(&mut self) {
        self.size = 0;
    }
}
