//! Decides which inbound mail is accepted.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_model::{DomainName, EmailAddress, InboundEvent, InboundOutcome};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply};

use super::{InboundSetup, forged};
use crate::MessageStore;
use crate::accept::{RecipientCheck, Relaying};
use crate::replies::to_wire;
use crate::smtp_session::{
    Body, Host, Postmaster, accept_message, check_hops, forward_path, header_of, is_mailer_daemon, not_looked_up,
    reverse_path,
};

pub(super) struct InboundHost<'a> {
    message_store: MessageStore,
    setup: &'a InboundSetup,
    peer: IpAddr,
    postmaster: Postmaster<'a>,
    /// Message size declared by the client, to check the room left in a mailbox.
    size: u64,
    /// Domain of the reverse-path.
    sender_domain: Option<DomainName>,
}

impl<'a> InboundHost<'a> {
    pub(super) const fn new(message_store: MessageStore, setup: &'a InboundSetup, peer: IpAddr) -> Self {
        let postmaster = Postmaster::among(setup.smtp.postmasters.as_slice());
        Self { message_store, setup, peer, postmaster, size: 0, sender_domain: None }
    }
}

impl InboundHost<'_> {
    fn note(&self, domain: DomainName, outcome: InboundOutcome) {
        let (at, sender_domain) = (self.message_store.clock().now(), self.sender_domain.clone());
        self.setup.log.note(InboundEvent { at, domain, sender_domain, outcome });
    }

    /// Refuses a looping message, and removes header fields that only this server may write.
    async fn look_at_header(&self, body: &mut Body) -> Result<(), Reply> {
        let settings = &self.setup.smtp.settings;
        let beginning = header_of(body, settings.max_header_bytes).await?;
        check_hops(&beginning, settings.max_hops)?;
        if beginning.len() < body.len() && !forged::has_end(&beginning) {
            // The unchecked rest of the header could contain forged fields.
            return Err(Reply::new(554, (5, 6, 0), "The message header is too long"));
        }
        if let Some((end, header)) = forged::removed(&beginning, &self.setup.smtp.hostname) {
            body.replace_beginning(end, header);
        }
        Ok(())
    }

    /// Counts a refusal for a local domain; other domains have no statistics here.
    async fn note_refusal(&self, recipient: &EmailAddress) {
        if self.message_store.is_local_domain(&recipient.domain()).await.unwrap_or(false) {
            self.note(recipient.domain(), InboundOutcome::Rejected);
        }
    }
}

#[async_trait]
impl Host for InboundHost<'_> {
    async fn may_send(&mut self, mail: &MailFrom) -> Answer {
        self.size = mail.size.unwrap_or_default();
        // Senders outside may have addresses that are invalid here, such as `u@[192.0.2.1]`. They are
        // accepted as given.
        self.sender_domain = reverse_path(mail).ok().flatten().map(|sender| sender.domain());
        Answer::Accept
    }

    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer {
        let address = match self.postmaster.forward_path(recipient, &self.message_store).await {
            Ok(address) => address,
            Err(refusal) => return Answer::Refuse(refusal),
        };
        // A return address has no mailbox of its own.
        let address = match self.message_store.returned_to(&address).await {
            Ok(returned) => returned.map_or(address, |(_, mailbox)| mailbox),
            Err(error) => return Answer::Refuse(not_looked_up(&error)),
        };
        match self.message_store.check_recipient(&address, self.size, Relaying::Denied).await {
            Ok(RecipientCheck::Local | RecipientCheck::Remote) => Answer::Accept,
            Ok(RecipientCheck::Refused(_)) if is_mailer_daemon(&address, &self.setup.smtp.hostname) => Answer::Accept,
            Ok(RecipientCheck::Refused(reply)) => {
                // After a temporary failure the other server retries, so it does not count yet.
                if !reply.is_transient() {
                    self.note_refusal(&address).await;
                }
                Answer::Refuse(to_wire(&reply))
            }
            Err(error) => Answer::Refuse(not_looked_up(&error)),
        }
    }

    /// The session does not offer AUTH here, so this is never called.
    async fn log_in(&mut self, _credentials: Credentials) -> Answer {
        Answer::bad_credentials()
    }

    async fn take(&mut self, message: Message, mut body: Body) -> Answer {
        if let Err(refusal) = self.look_at_header(&mut body).await {
            return Answer::Refuse(refusal);
        }
        let (store, postmaster) = (&self.message_store, &self.postmaster);
        let delivery = self.setup.smtp.delivery(store, postmaster, self.peer, Relaying::Denied);
        let recipients = message.envelope.recipients.iter();
        let mut recipients: Vec<EmailAddress> =
            recipients.filter_map(|recipient| forward_path(recipient, delivery.postmaster).ok()).collect();
        recipients.retain(|recipient| !is_mailer_daemon(recipient, &self.setup.smtp.hostname));
        let answer = accept_message(&delivery, message, body).await;
        if let Some(outcome) = outcome_of(&answer) {
            for recipient in recipients {
                self.note(recipient.domain(), outcome);
            }
        }
        answer
    }

    fn tls_established(&mut self) {
        self.size = 0;
    }
}

/// Returns the outcome for statistics; `None` for a temporary failure.
fn outcome_of(answer: &Answer) -> Option<InboundOutcome> {
    match answer {
        Answer::Accept | Answer::Queued(_) => Some(InboundOutcome::Accepted),
        Answer::Refuse(reply) => reply.is_permanent().then_some(InboundOutcome::Rejected),
    }
}
