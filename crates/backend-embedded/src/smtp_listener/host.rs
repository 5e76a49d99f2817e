//! Decides which inbound mail is accepted.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_backend::{Buffer, InboundAction, InboundMail, Judgement};
use mailapi_model::{
    Blob, ClientNetwork, DomainName, EmailAddress, EnhancedCode, InboundEvent, InboundOutcome, InboundRefusal, QueueId,
    RefusalStage, Reply,
};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply as WireReply};
use mailapi_store::StoreError;

use super::InboundSetup;
use crate::MessageStore;
use crate::accept::{Expanded, RecipientCheck, Relaying};
use crate::replies::{from_wire, to_wire};
use crate::smtp_session::forged;
use crate::smtp_session::{
    Body, Host, Postmaster, Source, accept_message, check_hops, forward_path, header_of, is_mailer_daemon,
    not_looked_up, reverse_path,
};

pub(super) struct InboundHost<'a> {
    message_store: MessageStore,
    setup: &'a InboundSetup,
    peer: IpAddr,
    postmaster: Postmaster<'a>,
    /// Message size declared by the client, to check the room left in a mailbox.
    size: u64,
    expanded: Expanded,
    /// The reverse-path; `None` if it is null or no valid address here.
    sender: Option<EmailAddress>,
    /// Whether the reverse-path is null.
    is_notice: bool,
}

impl<'a> InboundHost<'a> {
    pub(super) fn new(message_store: MessageStore, setup: &'a InboundSetup, peer: IpAddr) -> Self {
        let postmaster = Postmaster::among(setup.smtp.postmasters.as_slice());
        let expanded = Expanded::none(Relaying::Denied);
        Self { message_store, setup, peer, postmaster, size: 0, expanded, sender: None, is_notice: false }
    }
}

impl InboundHost<'_> {
    fn note(&self, domain: DomainName, outcome: InboundOutcome) {
        let (at, sender_domain) = (self.message_store.clock().now(), self.sender.as_ref().map(EmailAddress::domain));
        self.setup.log.note(InboundEvent { at, domain, sender_domain, outcome });
    }

    /// Notes a permanent refusal for a recipient of a local domain.
    fn note_refused(&self, recipient: &EmailAddress, stage: RefusalStage, reply: Reply) {
        let (at, client, sender) = (self.message_store.clock().now(), Some(self.peer), self.sender.clone());
        let recipient = recipient.clone();
        self.setup.log.refused(InboundRefusal { at, client, sender, recipient, stage, reply });
    }

    /// Refuses a looping message, and one whose header is not read to its end.
    async fn check_header(&self, body: &Body) -> Result<(), WireReply> {
        let settings = &self.setup.smtp.settings;
        let beginning = header_of(body, settings.max_header_bytes).await?;
        check_hops(&beginning, settings.max_hops)?;
        if beginning.len() < body.len() && !forged::has_end(&beginning) {
            // The unchecked rest of the header could contain forged fields.
            return Err(WireReply::new(554, (5, 6, 0), "The message header is too long"));
        }
        Ok(())
    }

    /// Removes the fields that only this server may write.
    async fn remove_forged(&self, body: &mut Body, own: &[&str]) -> Result<(), WireReply> {
        let beginning = header_of(body, self.setup.smtp.settings.max_header_bytes).await?;
        if let Some((end, header)) = forged::removed(&beginning, &self.setup.smtp.hostname, own) {
            drop(beginning);
            body.replace_beginning(end, header);
        }
        Ok(())
    }

    /// Asks what happens to a message. The checks see it as it was sent: a signature may cover a field that is
    /// removed later.
    async fn judge(
        &self,
        message: &Message,
        body: Body,
        recipients: &[EmailAddress],
        queue_id: &QueueId,
    ) -> (Judgement, Body) {
        let bytes: Blob = body.into();
        let mail = InboundMail {
            hostname: &self.setup.smtp.hostname,
            client: self.peer,
            client_name: &message.client_name,
            sender: &message.envelope.mail.reverse_path,
            recipients,
            queue_id,
            message: bytes.clone(),
        };
        let judgement = self.setup.judge.judge(mail).await;
        (judgement, bytes.into())
    }

    /// Checks a message and accepts or refuses it. Returns whether it went to the folder for junk too.
    async fn take_checked(&self, message: Message, body: Body, recipients: &[EmailAddress]) -> (Answer, bool) {
        if let Err(refusal) = self.check_header(&body).await {
            return (Answer::Refuse(refusal), false);
        }
        let queue_id = self.message_store.new_queue_id();
        let (judgement, mut body) = self.judge(&message, body, recipients, &queue_id).await;
        let refusal = match &judgement.action {
            InboundAction::Deliver | InboundAction::Junk => {
                self.remove_forged(&mut body, &judgement.own_fields).await.err()
            }
            InboundAction::Defer(text) => Some(WireReply::new(451, (4, 7, 1), text.clone())),
            InboundAction::Refuse(text) => Some(WireReply::new(550, (5, 7, 1), text.clone())),
        };
        if let Some(refusal) = refusal {
            return (Answer::Refuse(refusal), false);
        }
        let is_junk = judgement.action == InboundAction::Junk;
        let (store, postmaster) = (&self.message_store, &self.postmaster);
        let delivery = self.setup.smtp.delivery(store, postmaster, self.peer, Relaying::Denied);
        let source = Source::Outside { judgement, queue_id };
        (accept_message(&delivery, message, body, source).await, is_junk)
    }

    /// Returns the recipients that are counted.
    fn counted(&self, message: &Message) -> Vec<EmailAddress> {
        let recipients = message.envelope.recipients.iter();
        let mut recipients: Vec<EmailAddress> =
            recipients.filter_map(|recipient| forward_path(recipient, self.postmaster.found()).ok()).collect();
        recipients.retain(|recipient| !is_mailer_daemon(recipient, &self.setup.smtp.hostname));
        recipients
    }

    /// Decides about a return address of forwarded mail; `None` for other addresses. Only notices come back (RFC 5321
    /// section 6.1): everything else would be relayed for anyone who has seen such an address.
    async fn comes_back(&self, address: &EmailAddress) -> Result<Option<Answer>, StoreError> {
        let Some(sender) = self.message_store.forwarded_for(address) else { return Ok(None) };
        if !self.message_store.is_local_domain(&address.domain()).await? {
            return Ok(None);
        }
        let text = match sender {
            // Mail from outside with a sender of this server: the owner of the address did not submit it.
            Ok(sender) if self.message_store.is_local_domain(&sender.domain()).await? => {
                "The reported message was not submitted here".to_owned()
            }
            Ok(_) if self.is_notice => return Ok(Some(Answer::Accept)),
            Ok(_) => "Only delivery notices are accepted at this address".to_owned(),
            Err(error) => error.to_string(),
        };
        let reply = Reply::new(550, EnhancedCode::new(5, 7, 1), text);
        self.note_refusal(address, &reply).await;
        Ok(Some(Answer::Refuse(to_wire(&reply))))
    }

    /// Counts a refusal for a local domain; other domains have no statistics here.
    async fn note_refusal(&self, recipient: &EmailAddress, reply: &Reply) {
        if self.message_store.is_local_domain(&recipient.domain()).await.unwrap_or(false) {
            self.note(recipient.domain(), InboundOutcome::Rejected);
            self.note_refused(recipient, RefusalStage::Recipient, reply.clone());
        }
    }
}

#[async_trait]
impl Host for InboundHost<'_> {
    async fn may_send(&mut self, mail: &MailFrom) -> Answer {
        self.size = mail.size.unwrap_or_default();
        self.expanded = Expanded::none(Relaying::Denied);
        // Senders outside may have addresses that are invalid here, such as `u@[192.0.2.1]`. They are
        // accepted as given.
        self.sender = reverse_path(mail).ok().flatten();
        self.is_notice = mail.reverse_path.is_empty();
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
        match self.comes_back(&address).await {
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            Err(error) => return Answer::Refuse(not_looked_up(&error)),
        }
        let relaying = Relaying::Denied;
        match self.message_store.check_recipient(&address, self.size, relaying, &mut self.expanded).await {
            Ok(RecipientCheck::Local | RecipientCheck::Remote) => Answer::Accept,
            Ok(RecipientCheck::Refused(_)) if is_mailer_daemon(&address, &self.setup.smtp.hostname) => Answer::Accept,
            Ok(RecipientCheck::Refused(reply)) => {
                // After a temporary failure the other server retries, so it does not count yet.
                if !reply.is_transient() {
                    self.note_refusal(&address, &reply).await;
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

    async fn take(&mut self, message: Message, body: Body) -> Answer {
        let recipients = self.counted(&message);
        let (answer, is_junk) = self.take_checked(message, body, &recipients).await;
        if let Some(outcome) = outcome_of(&answer, is_junk) {
            for recipient in recipients {
                self.note(recipient.domain(), outcome);
                if let Answer::Refuse(reply) = &answer {
                    self.note_refused(&recipient, RefusalStage::Message, from_wire(reply));
                }
            }
        }
        answer
    }

    fn buffer(&self) -> Buffer {
        self.message_store.buffer().for_stranger(ClientNetwork::of(self.peer))
    }

    fn tls_established(&mut self) {
        self.size = 0;
    }
}

/// Returns the outcome for statistics; `None` for a temporary failure.
fn outcome_of(answer: &Answer, is_junk: bool) -> Option<InboundOutcome> {
    match answer {
        Answer::Accept | Answer::Queued(_) if is_junk => Some(InboundOutcome::Spam),
        Answer::Accept | Answer::Queued(_) => Some(InboundOutcome::Accepted),
        Answer::Refuse(reply) => reply.is_permanent().then_some(InboundOutcome::Rejected),
    }
}
