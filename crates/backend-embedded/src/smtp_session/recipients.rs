//! Addresses of the wire as addresses of the product.

use mailapi_model::{EmailAddress, ReversePath};
use mailapi_smtp::{MailFrom, RcptTo, Reply};
use mailapi_store::StoreError;

use crate::MessageStore;
use crate::dsn::MAILER_DAEMON;

/// Who sends. Empty is the null reverse-path.
pub(crate) fn reverse_path(mail: &MailFrom) -> Result<ReversePath, Reply> {
    if mail.reverse_path.is_empty() {
        return Ok(None);
    }
    let refusal = |_| Reply::new(553, (5, 1, 7), "The sender's address is not one that can be answered");
    EmailAddress::as_given(&mail.reverse_path).map(Some).map_err(refusal)
}

/// Who receives `postmaster` without a domain, which every server has to know (RFC 5321 section 4.5.1).
pub(crate) struct Postmaster<'a> {
    candidates: &'a [EmailAddress],
    found: Option<EmailAddress>,
}

impl<'a> Postmaster<'a> {
    /// The first of these that is a mailbox here.
    pub(crate) const fn among(candidates: &'a [EmailAddress]) -> Self {
        Self { candidates, found: None }
    }

    /// Who it was at the last RCPT that asked; so a mailbox that goes meanwhile costs the other recipients nothing.
    pub(crate) const fn found(&self) -> Option<&EmailAddress> {
        self.found.as_ref()
    }

    /// Who receives, at RCPT.
    pub(crate) async fn forward_path(
        &mut self,
        recipient: &RcptTo,
        message_store: &MessageStore,
    ) -> Result<EmailAddress, Reply> {
        if !has_domain(recipient) {
            self.found = message_store.first_mailbox(self.candidates).await.map_err(|error| not_looked_up(&error))?;
        }
        forward_path(recipient, self.found())
    }
}

/// Who receives. `postmaster` is whoever that name without a domain is.
pub(crate) fn forward_path(recipient: &RcptTo, postmaster: Option<&EmailAddress>) -> Result<EmailAddress, Reply> {
    if has_domain(recipient) {
        let refusal = |_| Reply::new(553, (5, 1, 3), "The recipient's address is not valid");
        return EmailAddress::as_given(&recipient.forward_path).map_err(refusal);
    }
    postmaster.cloned().ok_or_else(|| Reply::new(550, (5, 1, 1), "There is no mailbox of a postmaster here"))
}

/// Whether this is the author of our notices, an address that is never read. It is accepted, because users reply to
/// notices, and a refusal would only cause another notice.
pub(crate) fn is_mailer_daemon(address: &EmailAddress, hostname: &str) -> bool {
    address.local().eq_ignore_ascii_case(MAILER_DAEMON) && address.domain_str().eq_ignore_ascii_case(hostname)
}

fn has_domain(recipient: &RcptTo) -> bool {
    recipient.forward_path.contains('@')
}

/// Nothing is known of a recipient for now.
pub(crate) fn not_looked_up(error: &StoreError) -> Reply {
    tracing::error!(%error, "a recipient could not be looked up");
    Reply::new(451, (4, 3, 0), "The recipient cannot be looked up at the moment")
}
