//! Checks whether the server relays mail to other domains.

use mailapi_backend::SubmitError;
use mailapi_model::Reply;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{End, Outcome};

use super::{SmtpSubmission, convert};
use crate::smtp_pool::CommitGate;

/// A non-existent address in a reserved domain (RFC 2606 section 2).
const STRANGER: &str = "relay-check@mailapi.invalid";

/// The server's response to a recipient of another domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relaying {
    /// The server accepts mail for it.
    Allowed,
    /// The server does not relay.
    Denied(Reply),
    /// The reply has another reason.
    Unclear(Reply),
}

impl Relaying {
    /// Classifies a reply. Enhanced codes with subject 7 are policy refusals (RFC 3463 section 3.8). Without such a
    /// code, the text decides.
    fn of(reply: Reply) -> Self {
        if (200..300).contains(&reply.code) {
            return Self::Allowed;
        }
        let is_policy = reply.enhanced.is_some_and(|code| code.subject == 7);
        let says_so = reply.enhanced.is_none() && reply.text.to_ascii_lowercase().contains("relay");
        if is_policy || says_so { Self::Denied(reply) } else { Self::Unclear(reply) }
    }
}

impl SmtpSubmission {
    /// Checks whether the server would accept mail for another domain, without sending a message.
    ///
    /// # Errors
    /// If the server does not respond.
    pub async fn relaying(&self) -> Result<Relaying, SubmitError> {
        // The commit gate never opens, so no message is transmitted.
        let (opener, withdrawn) = CommitGate::closed();
        drop(opener);
        let envelope = Envelope::new("", [STRANGER]);
        let sent = self.pool.send(&envelope, b"\r\n".to_vec().into(), withdrawn).await;
        let Outcome { rcpt_replies, end } = sent.map_err(SubmitError::Unavailable)?;
        match (rcpt_replies.into_iter().flatten().next(), end) {
            (_, End::Refused { reply, .. }) | (Some(reply), _) => Ok(Relaying::of(convert::reply(&reply))),
            (None, End::Failed(failure)) => Err(SubmitError::Unavailable(failure.to_string())),
            (None, _) => Err(SubmitError::Unavailable("the server did not answer".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use mailapi_testkit::SmtpSink;
    use mailapi_tls::{Trust, client_config};

    use super::*;
    use crate::smtp_pool::{SmtpPool, SmtpSettings};

    #[tokio::test]
    async fn a_server_that_does_not_relay_is_found_without_a_message() {
        let sink = SmtpSink::start().await;
        let (host, port) = (sink.address().ip().to_string(), sink.address().port());
        let pool = SmtpPool::new(SmtpSettings::new(host, port), client_config(&Trust::System).unwrap());
        let submission = SmtpSubmission::new(pool, None);
        assert_eq!(submission.relaying().await.unwrap(), Relaying::Allowed);
        for (reply, is_denied) in [
            ("554 5.7.1 <x@y>: Relay access denied", true),
            ("454 4.7.1 <x@y>: Relay access denied", true),
            ("550 Relaying is not permitted", true),
            ("450 4.1.2 <x@y>: Domain not found", false),
            ("451 Try again later", false),
        ] {
            sink.refuse(STRANGER, &[reply]);
            let found = submission.relaying().await.unwrap();
            assert_eq!(matches!(found, Relaying::Denied(_)), is_denied, "{found:?}");
            assert_eq!(matches!(found, Relaying::Unclear(_)), !is_denied, "{found:?}");
        }
        assert_eq!(sink.received(), []);
    }
}
