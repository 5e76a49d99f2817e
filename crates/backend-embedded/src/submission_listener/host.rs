//! Decides which submitted mail is accepted.

use std::net::IpAddr;

use async_trait::async_trait;
use mailapi_backend::{Buffer, LoggedIn, LoginError, SendAsError, SignError};
use mailapi_model::{
    Blob, ClientNetwork, DomainName, EmailAddress, Grants, LoginProtocol, MessageId, ReversePath, Secret, Visitor,
};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply};

use super::SubmissionSetup;
use super::completion::added;
use super::header::{AuthorFields, HeaderError, block};
use super::private;
use crate::MessageStore;
use crate::accept::{Expanded, RecipientCheck, Relaying, Submitter};
use crate::replies::to_wire;
use crate::smtp_session::forged;
use crate::smtp_session::{
    Body, Host, Postmaster, Source, accept_message, check_hops, forward_path, header_of, not_looked_up, reverse_path,
};

pub(super) struct SubmissionHost<'a> {
    message_store: MessageStore,
    setup: &'a SubmissionSetup,
    peer: IpAddr,
    postmaster: Postmaster<'a>,
    logged_in: Option<LoggedIn>,
    size: u64,
    expanded: Expanded,
}

impl<'a> SubmissionHost<'a> {
    pub(super) fn new(message_store: MessageStore, setup: &'a SubmissionSetup, peer: IpAddr) -> Self {
        let postmaster = Postmaster::among(setup.smtp.postmasters.as_slice());
        let expanded = Expanded::none(Relaying::Allowed);
        Self { message_store, setup, peer, postmaster, logged_in: None, size: 0, expanded }
    }

    fn grants(&self) -> Result<&Grants, Reply> {
        self.logged_in.as_ref().map(|session| &session.grants).ok_or_else(not_logged_in)
    }

    /// Checks that the logged-in account is still allowed. A refusal with 421 ends the session.
    async fn renew(&mut self) -> Result<(), Reply> {
        let session = self.logged_in.as_mut().ok_or_else(not_logged_in)?;
        self.setup.login.renew(session).await.map_err(|error| match error {
            LoginError::Unavailable => Reply::new(451, (4, 3, 0), "The account cannot be looked up at the moment"),
            LoginError::Refused | LoginError::Locked => {
                Reply::new(421, (4, 7, 0), "The account is disabled, or the password was changed or revoked")
            }
        })
    }

    async fn check_sender(&self, mail: &MailFrom) -> Result<ReversePath, Reply> {
        let sender = reverse_path(mail)?;
        // Messages that must not be answered, such as read receipts, have the null reverse-path (RFC 8098
        // section 3). Their author in From is checked as well.
        if let Some(sender) = &sender {
            self.may_send_as(sender).await?;
        }
        Ok(sender)
    }

    async fn may_send_as(&self, address: &EmailAddress) -> Result<(), Reply> {
        let asked = self.setup.login.may_send_as(self.grants()?, address).await;
        asked.map(drop).map_err(|error| match error {
            SendAsError::Denied(_) => Reply::new(553, (5, 7, 1), format!("You may not send as <{address}>")),
            SendAsError::Unavailable => Reply::new(451, (4, 3, 0), "The sender cannot be checked at the moment"),
        })
    }

    /// Checks and completes a message, removes private fields, and signs the result. Also returns who submits it.
    async fn prepare(&self, message: &Message, mut body: Body) -> Result<(Body, Option<Submitter>), Reply> {
        let grants = self.grants()?;
        let sender = reverse_path(&message.envelope.mail)?;
        let settings = &self.setup.smtp.settings;
        let beginning = header_of(&body, settings.max_header_bytes).await?;
        check_hops(&beginning, settings.max_hops)?;
        // The header may continue after the part that was read.
        if block(&beginning).len() == beginning.len() && beginning.len() < body.len() {
            return Err(bad_header(HeaderError::TooLong));
        }
        let fields = AuthorFields::of(&beginning).map_err(bad_header)?;
        for address in fields.author.iter().chain(&fields.sender) {
            self.may_send_as(address).await?;
        }
        let author = fields.author.as_ref().or(sender.as_ref()).or(grants.mailbox()).ok_or_else(no_author)?.clone();
        let now = self.message_store.clock().now();
        let id = MessageId::random(now, self.message_store.entropy());
        let (block, rest) = beginning.split_at(block(&beginning).len());
        let (mut kept, length) = (private::strip(block), block.len());
        // Local readers would believe them.
        if let Some((end, honest)) = forged::removed(&kept, &self.setup.smtp.hostname, &[]) {
            kept = [honest.as_slice(), &kept[end..]].concat();
        }
        let added = added(&kept, rest, &fields, &author, id, now);
        if !added.is_empty() || kept.len() < length {
            body.replace_beginning(length, [added.as_bytes(), &kept].concat());
        }
        let body = Body::from(self.sign(&author.domain(), body.into()).await?);
        let submitter = grants.mailbox().map(|mailbox| Submitter { mailbox: mailbox.clone(), from: author });
        Ok((body, submitter))
    }

    /// Signs for the author's domain, which must be an allowed sender.
    async fn sign(&self, domain: &DomainName, message: Blob) -> Result<Blob, Reply> {
        self.setup.sign.sign(domain, message).await.map_err(not_signed)
    }

    /// Counts the message against the mailbox's daily limits.
    async fn count(&self, message: &Message) -> Result<(), Reply> {
        let recipients = message.envelope.recipients.iter().map(|to| forward_path(to, self.postmaster.found()));
        let recipients = recipients.collect::<Result<Vec<_>, _>>()?;
        let counted = self.setup.login.may_send_to(self.grants()?, &recipients).await;
        counted.map_err(|reached| Reply::new(452, (4, 7, 1), format!("Daily limit reached: {reached}")))
    }

    async fn check_recipient(&mut self, recipient: &RcptTo) -> Result<(), Reply> {
        let address = self.postmaster.forward_path(recipient, &self.message_store).await?;
        let relaying = Relaying::Allowed;
        match self.message_store.check_recipient(&address, self.size, relaying, &mut self.expanded).await {
            Ok(RecipientCheck::Local | RecipientCheck::Remote) => Ok(()),
            Ok(RecipientCheck::Refused(reply)) => Err(to_wire(&reply)),
            Err(error) => Err(not_looked_up(&error)),
        }
    }
}

#[async_trait]
impl Host for SubmissionHost<'_> {
    async fn may_send(&mut self, mail: &MailFrom) -> Answer {
        self.size = mail.size.unwrap_or_default();
        self.expanded = Expanded::none(Relaying::Allowed);
        if let Err(refusal) = self.renew().await {
            return Answer::Refuse(refusal);
        }
        let checked = self.check_sender(mail).await;
        checked.map_or_else(Answer::Refuse, |_| Answer::Accept)
    }

    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer {
        if let Err(refusal) = self.renew().await {
            return Answer::Refuse(refusal);
        }
        self.check_recipient(recipient).await.map_or_else(Answer::Refuse, |()| Answer::Accept)
    }

    async fn log_in(&mut self, credentials: Credentials) -> Answer {
        let password = Secret::new(credentials.password.expose().to_owned());
        let from = Visitor { protocol: LoginProtocol::Submission, address: self.peer.to_canonical() };
        match self.setup.login.log_in(&credentials.username, &password, from).await {
            Ok(logged_in) => {
                self.logged_in = Some(logged_in);
                Answer::Accept
            }
            Err(LoginError::Refused) => Answer::bad_credentials(),
            // The client may retry with the same credentials (RFC 4954 section 6).
            Err(LoginError::Locked) => {
                Answer::Refuse(Reply::new(454, (4, 7, 0), "Too many failed logins, try again later"))
            }
            Err(LoginError::Unavailable) => {
                Answer::Refuse(Reply::new(454, (4, 7, 0), "Logins are not possible at the moment"))
            }
        }
    }

    async fn take(&mut self, message: Message, body: Body) -> Answer {
        // The account may have been disabled while the message was sent.
        if let Err(refusal) = self.renew().await {
            return Answer::Refuse(refusal);
        }
        let (body, submitter) = match self.prepare(&message, body).await {
            Ok(prepared) => prepared,
            Err(refusal) => return Answer::Refuse(refusal),
        };
        // Counted after all other checks, so that a refused message uses up no limit.
        if let Err(refusal) = self.count(&message).await {
            return Answer::Refuse(refusal);
        }
        let (store, postmaster) = (&self.message_store, &self.postmaster);
        let delivery = self.setup.smtp.delivery(store, postmaster, self.peer, Relaying::Allowed);
        accept_message(&delivery, message, body, Source::MailProgram(submitter)).await
    }

    fn buffer(&self) -> Buffer {
        let buffer = self.message_store.buffer();
        match self.logged_in.as_ref().and_then(|session| session.grants.mailbox()) {
            Some(mailbox) => buffer.for_mailbox(mailbox.clone()),
            None => buffer.for_stranger(ClientNetwork::of(self.peer)),
        }
    }

    fn tls_established(&mut self) {
        self.logged_in = None;
        self.size = 0;
    }
}

fn not_logged_in() -> Reply {
    Reply::new(530, (5, 7, 0), "Authentication required")
}

fn bad_header(error: HeaderError) -> Reply {
    let text = match error {
        HeaderError::Twice => "From and Sender must not occur twice",
        HeaderError::Malformed => "The message header contains a line that is not a field",
        HeaderError::TooLong => "The message header is too long",
        HeaderError::Unreadable => "From and Sender must each contain one valid address (RFC 5322)",
    };
    Reply::new(550, (5, 6, 0), text)
}

fn no_author() -> Reply {
    Reply::new(550, (5, 6, 0), "The message has no From address")
}

fn not_signed(error: SignError) -> Reply {
    match error {
        SignError::NotAllowed => Reply::new(550, (5, 7, 1), "The author's domain may not send"),
        SignError::Unavailable => Reply::new(451, (4, 3, 0), "The message cannot be signed at the moment"),
    }
}
