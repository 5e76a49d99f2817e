//! Addresses of the wire as addresses of the product.

use mailapi_model::{EmailAddress, ReversePath};
use mailapi_smtp::{MailFrom, RcptTo, Reply};

/// Who sends. Empty is the null reverse-path.
pub(crate) fn reverse_path(mail: &MailFrom) -> Result<ReversePath, Reply> {
    if mail.reverse_path.is_empty() {
        return Ok(None);
    }
    let refusal = |_| Reply::new(553, (5, 1, 7), "The sender's address is not one that can be answered");
    mail.reverse_path.parse().map(Some).map_err(refusal)
}

/// Who receives. `postmaster` without a domain is whoever `postmaster` says, or that name at this host, which every
/// server has to know (RFC 5321 section 4.5.1).
pub(crate) fn forward_path(
    recipient: &RcptTo,
    hostname: &str,
    postmaster: Option<&EmailAddress>,
) -> Result<EmailAddress, Reply> {
    let path = recipient.forward_path.as_str();
    let refusal = |_| Reply::new(553, (5, 1, 3), "The recipient's address is not valid");
    match (path.contains('@'), postmaster) {
        (true, _) => path.parse().map_err(refusal),
        (false, Some(postmaster)) => Ok(postmaster.clone()),
        (false, None) => format!("{path}@{hostname}").parse().map_err(refusal),
    }
}
