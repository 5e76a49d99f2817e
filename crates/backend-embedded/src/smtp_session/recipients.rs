//! Addresses of the wire as addresses of the product.

use mailapi_model::{EmailAddress, ReversePath};
use mailapi_smtp::{MailFrom, RcptTo, Reply};
use mailapi_store::StoreError;

use crate::Maildrop;

/// Who sends. Empty is the null reverse-path.
pub(crate) fn reverse_path(mail: &MailFrom) -> Result<ReversePath, Reply> {
    if mail.reverse_path.is_empty() {
        return Ok(None);
    }
    let refusal = |_| Reply::new(553, (5, 1, 7), "The sender's address is not one that can be answered");
    mail.reverse_path.parse().map(Some).map_err(refusal)
}

/// Who receives. `postmaster` without a domain, which every server has to know (RFC 5321 section 4.5.1), is the first of
/// `postmasters` that is a mailbox here.
pub(crate) async fn forward_path(
    recipient: &RcptTo,
    maildrop: &Maildrop,
    postmasters: &[EmailAddress],
) -> Result<EmailAddress, Reply> {
    let path = recipient.forward_path.as_str();
    if path.contains('@') {
        return path.parse().map_err(|_| Reply::new(553, (5, 1, 3), "The recipient's address is not valid"));
    }
    let postmaster = maildrop.first_mailbox(postmasters).await.map_err(|error| not_looked_up(&error))?;
    postmaster.ok_or_else(|| Reply::new(550, (5, 1, 1), "There is no mailbox of a postmaster here"))
}

/// Nothing is known of a recipient for now.
pub(crate) fn not_looked_up(error: &StoreError) -> Reply {
    tracing::error!(%error, "a recipient could not be looked up");
    Reply::new(451, (4, 3, 0), "The recipient cannot be looked up at the moment")
}
