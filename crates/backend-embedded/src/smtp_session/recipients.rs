//! Converts SMTP paths to addresses.

use mailapi_model::{EmailAddress, ReversePath};
use mailapi_smtp::{MailFrom, RcptTo, Reply};
use mailapi_store::StoreError;

use crate::MessageStore;
use crate::accept::no_postmaster;
use crate::dsn::MAILER_DAEMON;
use crate::replies::to_wire;

/// Returns the sender; `None` for the null reverse-path.
pub(crate) fn reverse_path(mail: &MailFrom) -> Result<ReversePath, Reply> {
    if mail.reverse_path.is_empty() {
        return Ok(None);
    }
    let refusal = |_| Reply::new(553, (5, 1, 7), "The sender address is not valid");
    EmailAddress::as_given(&mail.reverse_path).map(Some).map_err(refusal)
}

/// Recipient of `postmaster` without a domain, which every server must accept (RFC 5321 section 4.5.1).
pub(crate) struct Postmaster<'a> {
    candidates: &'a [EmailAddress],
    found: Option<EmailAddress>,
}

impl<'a> Postmaster<'a> {
    /// The recipient is the first candidate that gets mail here, or the oldest mailbox.
    pub(crate) const fn among(candidates: &'a [EmailAddress]) -> Self {
        Self { candidates, found: None }
    }

    /// Returns the mailbox found at the last such RCPT. If that mailbox is removed meanwhile, the other
    /// recipients are not affected.
    pub(crate) const fn found(&self) -> Option<&EmailAddress> {
        self.found.as_ref()
    }

    /// Returns the address of a recipient at RCPT.
    pub(crate) async fn forward_path(
        &mut self,
        recipient: &RcptTo,
        message_store: &MessageStore,
    ) -> Result<EmailAddress, Reply> {
        if !has_domain(recipient) {
            self.found = message_store.postmaster(self.candidates).await.map_err(|error| not_looked_up(&error))?;
        }
        forward_path(recipient, self.found())
    }
}

/// Returns the address of a recipient. `postmaster` is the recipient of that name without a domain.
pub(crate) fn forward_path(recipient: &RcptTo, postmaster: Option<&EmailAddress>) -> Result<EmailAddress, Reply> {
    if has_domain(recipient) {
        let refusal = |_| Reply::new(553, (5, 1, 3), "The recipient address is not valid");
        return EmailAddress::as_given(&recipient.forward_path).map_err(refusal);
    }
    postmaster.cloned().ok_or_else(|| to_wire(&no_postmaster()))
}

/// Returns whether an address is the author of our notices, which has no readers. It is accepted, because
/// users reply to notices, and a refusal would only cause another notice.
pub(crate) fn is_mailer_daemon(address: &EmailAddress, hostname: &str) -> bool {
    address.local().eq_ignore_ascii_case(MAILER_DAEMON) && address.domain_str().eq_ignore_ascii_case(hostname)
}

fn has_domain(recipient: &RcptTo) -> bool {
    recipient.forward_path.contains('@')
}

/// Logs a failed look-up. Returns a temporary failure.
pub(crate) fn not_looked_up(error: &StoreError) -> Reply {
    tracing::error!(%error, "recipient look-up failed");
    Reply::new(451, (4, 3, 0), "The recipient cannot be looked up at the moment")
}
