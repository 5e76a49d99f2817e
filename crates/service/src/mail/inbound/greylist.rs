//! Greylisting: an unknown sender is refused for now. Mail servers try again later; most programs that send spam through
//! other people's machines do not.
//!
//! It follows the other checks: a server that a domain names, or that signs for it, is a mail server, and waiting would
//! prove nothing about it. Those checks need the whole message.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use mailapi_backend::{InboundAction, InboundMail, Judgement};
use mailapi_metrics::Greylisted;
use mailapi_model::{AuthenticationResult, EmailAddress, Timestamp};
use mailapi_store::GreylistKept;
use sha2::{Digest, Sha256};

use super::signatures::Signed;
use super::{Findings, is_below};
use crate::{Service, Unavailable};

/// Time after which an unknown sender is accepted: shorter than the first pause of usual mail servers.
const DELAY: Duration = Duration::from_secs(3 * 60);
/// Time within which an unknown sender must try again. Mail servers try for days, and at least every few hours.
const WAITING: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for which a sender stays known after its last message: longer than a month, so that monthly mail is not delayed.
const KNOWN: Duration = Duration::from_secs(36 * 24 * 60 * 60);
/// Maximum number of rows. Each has about 100 bytes.
const MAX_ROWS: u64 = 500_000;
/// Prefix lengths of the networks whose addresses count as one client: senders with many servers try again from another.
const PREFIXES: (u8, u8) = (24, 64);
/// Length of a key: 128 bits in hexadecimal.
const KEY_BYTES: usize = 16;

impl Service {
    /// Defers a message from a client, sender and recipient that are not known together. If the database fails, the
    /// message passes.
    pub(super) async fn greylisted(
        &self,
        judgement: Judgement,
        findings: &Findings,
        client: IpAddr,
        mail: &InboundMail<'_>,
    ) -> Judgement {
        if !self.0.settings.inbound.greylist || findings.is_authenticated() {
            return judgement;
        }
        let now = self.0.clock.now();
        let keys = mail.recipients.iter().map(|recipient| key(client, mail.sender, recipient)).collect();
        let passes = self.0.store.greylist().attempt(keys, now, now.minus(DELAY)).await.unwrap_or_else(|error| {
            tracing::error!(queue_id = %mail.queue_id, %error, "greylist could not be read; the message passes");
            true
        });
        self.0.metrics.count_greylisted(if passes { Greylisted::Passed } else { Greylisted::Deferred });
        if passes {
            return judgement;
        }
        tracing::info!(queue_id = %mail.queue_id, %client, "greylisted");
        let minutes = DELAY.as_secs() / 60;
        let text = format!(
            "Greylisted: the first message of an unknown sender is accepted after {minutes} minutes; try again"
        );
        Judgement { action: InboundAction::Defer(text), ..judgement }
    }

    /// Deletes old rows of the greylist. Returns their number.
    pub(crate) async fn prune_greylist(&self, now: Timestamp) -> Result<u64, Unavailable> {
        let kept = GreylistKept { waiting: now.minus(WAITING), passed: now.minus(KNOWN), rows: MAX_ROWS };
        Ok(self.0.store.greylist().prune(kept).await?)
    }
}

impl Findings {
    /// Returns whether the client is a mail server of the sender or of the author.
    fn is_authenticated(&self) -> bool {
        let passed = AuthenticationResult::Pass;
        self.spf.result == passed || self.dmarc.result == passed || self.is_signed_by_author()
    }

    /// Returns whether a signature of the author's domain, or of a name below it, is valid.
    fn is_signed_by_author(&self) -> bool {
        let is_valid = |one: &Signed| one.result == AuthenticationResult::Pass && is_below(&one.domain, &self.author);
        !self.author.is_empty() && self.signatures.dkim.iter().any(is_valid)
    }
}

/// Returns the hash of a client's network, a sender and a recipient.
fn key(client: IpAddr, sender: &str, recipient: &EmailAddress) -> String {
    let prefix = if client.is_ipv4() { PREFIXES.0 } else { PREFIXES.1 };
    let network = IpNet::new_assert(client, prefix).trunc();
    let text = format!("{network}\0{}\0{}", sender.to_ascii_lowercase(), recipient.as_str());
    Sha256::digest(text)[..KEY_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(client: &str, sender: &str, recipient: &str) -> String {
        key(client.parse().unwrap(), sender, &recipient.parse().unwrap())
    }

    #[test]
    fn a_network_is_one_client() {
        let known = key_of("192.0.2.7", "zoe@far.example", "bob@here.example");
        assert_eq!(known.len(), 2 * KEY_BYTES);
        assert_eq!(key_of("192.0.2.200", "Zoe@far.example", "Bob@here.example"), known);
        for (client, sender, recipient) in [
            ("192.0.3.7", "zoe@far.example", "bob@here.example"),
            ("192.0.2.7", "", "bob@here.example"),
            ("192.0.2.7", "zoe@far.example", "ann@here.example"),
        ] {
            assert_ne!(key_of(client, sender, recipient), known);
        }
        let v6 = |client| key_of(client, "", "bob@here.example");
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
    }
}
