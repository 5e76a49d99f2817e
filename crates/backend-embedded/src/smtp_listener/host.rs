//! Who may send to whom from outside.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_model::{DomainName, EmailAddress, InboundEvent, InboundOutcome};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply};

use super::InboundSetup;
use crate::Maildrop;
use crate::accept::{RecipientCheck, Relaying};
use crate::replies::to_wire;
use crate::smtp_session::{
    Body, Delivery, Host, Postmaster, check_hops, forward_path, header_of, not_looked_up, reverse_path, take_over,
};

pub(super) struct InboundHost<'a> {
    maildrop: Maildrop,
    setup: &'a InboundSetup,
    peer: IpAddr,
    postmaster: Postmaster<'a>,
    /// How long the client says the message is; the verdict on a recipient depends on the room that is left.
    size: u64,
    /// The domain of the reverse-path.
    sender_domain: Option<DomainName>,
}

impl<'a> InboundHost<'a> {
    pub(super) const fn new(maildrop: Maildrop, setup: &'a InboundSetup, peer: IpAddr) -> Self {
        let postmaster = Postmaster::among(setup.postmasters.as_slice());
        Self { maildrop, setup, peer, postmaster, size: 0, sender_domain: None }
    }
}

impl InboundHost<'_> {
    fn note(&self, domain: DomainName, outcome: InboundOutcome) {
        let (at, sender_domain) = (self.maildrop.clock().now(), self.sender_domain.clone());
        self.setup.log.note(InboundEvent { at, domain, sender_domain, outcome });
    }

    async fn check_hops(&self, body: &Body) -> Result<(), Reply> {
        let settings = &self.setup.settings;
        check_hops(&header_of(body, settings.max_header_bytes).await?, settings.max_hops)
    }

    /// A refusal counts for a domain of ours; others have nothing to do with us.
    async fn note_refusal(&self, recipient: &EmailAddress) {
        if self.maildrop.is_local_domain(&recipient.domain()).await.unwrap_or(false) {
            self.note(recipient.domain(), InboundOutcome::Rejected);
        }
    }
}

#[async_trait]
impl Host for InboundHost<'_> {
    async fn may_send(&mut self, mail: &MailFrom) -> Answer {
        self.size = mail.size.unwrap_or_default();
        match reverse_path(mail) {
            Ok(sender) => {
                self.sender_domain = sender.map(|sender| sender.domain());
                Answer::Accept
            }
            Err(refusal) => Answer::Refuse(refusal),
        }
    }

    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer {
        let address = match self.postmaster.forward_path(recipient, &self.maildrop).await {
            Ok(address) => address,
            Err(refusal) => return Answer::Refuse(refusal),
        };
        match self.maildrop.check_recipient(&address, self.size, Relaying::Denied).await {
            Ok(RecipientCheck::Local | RecipientCheck::Remote) => Answer::Accept,
            Ok(RecipientCheck::Refused(reply)) => {
                self.note_refusal(&address).await;
                Answer::Refuse(to_wire(&reply))
            }
            Err(error) => Answer::Refuse(not_looked_up(&error)),
        }
    }

    /// The session does not offer AUTH here, so nobody is asked.
    async fn log_in(&mut self, _credentials: Credentials) -> Answer {
        Answer::bad_credentials()
    }

    async fn take(&mut self, message: Message, body: Body) -> Answer {
        if let Err(refusal) = self.check_hops(&body).await {
            return Answer::Refuse(refusal);
        }
        let delivery = Delivery {
            maildrop: &self.maildrop,
            hostname: &self.setup.hostname,
            postmaster: self.postmaster.found(),
            peer: self.peer,
            relaying: Relaying::Denied,
            max_returned_bytes: self.setup.max_returned_bytes,
        };
        let recipients = message.envelope.recipients.iter();
        let recipients: Vec<EmailAddress> =
            recipients.filter_map(|recipient| forward_path(recipient, delivery.postmaster).ok()).collect();
        let answer = take_over(&delivery, message, body).await;
        let taken = matches!(answer, Answer::Queued(_));
        let outcome = if taken { InboundOutcome::Accepted } else { InboundOutcome::Rejected };
        for recipient in recipients {
            self.note(recipient.domain(), outcome);
        }
        answer
    }

    fn tls_established(&mut self) {
        self.size = 0;
    }
}
