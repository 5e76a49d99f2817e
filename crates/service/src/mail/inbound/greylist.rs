//! Greylisting: an unknown sender is refused for now. Mail servers try again later; most programs that send spam through
//! other people's machines do not.
//!
//! It follows the other checks: a server that a domain names, or that signs for it, is a mail server, and waiting would
//! prove nothing about it. Those checks need the whole message.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use mailapi_backend::{InboundAction, InboundMail, Judgement};
use mailapi_metrics::Greylisted;
use mailapi_model::{AuthenticationResult, EmailAddress, Timestamp};
use mailapi_store::{GreylistAnswer, GreylistAttempt, GreylistRemoval, GreylistRoom, GreylistRows, StoreError};
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
/// Maximum number of rows of senders that wait. Each row has about 200 bytes with its indexes.
const MAX_WAITING: u64 = 100_000;
/// Maximum number of rows of senders that are known. Others are then forgotten, those unseen for the longest time first.
const MAX_KNOWN: u64 = 400_000;
/// Maximum number of a network's rows that wait, by the part of [`MAX_WAITING`] that all networks use, in quarters. The
/// fuller the table is, the more networks a flood needs to fill the rest.
const SHARES: [u64; 4] = [1_000, 1_000, 100, 10];
/// A network with fewer rows that wait is not what fills the table.
const INNOCENT: u64 = SHARES[3];
/// Maximum number of a network's rows of known senders.
const SHARE_OF_KNOWN: u64 = 5_000;
/// Prefix lengths of the networks whose addresses count as one client: senders with many servers try again from another.
const PREFIXES: (u8, u8) = (24, 64);
/// Prefix lengths of the networks that have a share: one subscriber may use all of an IPv6 /48 (RFC 6177 section 2).
const SHARING_PREFIXES: (u8, u8) = (24, 48);
/// Length of a key: 128 bits in hexadecimal.
const KEY_BYTES: usize = 16;

/// The numbers of rows, which this process counts once and then follows. They may differ a little from the table, which
/// is counted again before each removal.
#[derive(Debug, Default)]
pub(crate) struct GreylistSize(Mutex<Option<GreylistRows>>);

impl GreylistSize {
    fn get(&self) -> Option<GreylistRows> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, rows: GreylistRows) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
    }

    /// Follows an attempt, which added rows that wait, and let others pass.
    fn add(&self, rows: GreylistRows) {
        self.change(|known| {
            known.waiting = (known.waiting + rows.waiting).saturating_sub(rows.passed);
            known.passed += rows.passed;
        });
    }

    fn remove(&self, removal: GreylistRemoval, rows: u64) {
        self.change(|known| {
            let count = match removal {
                GreylistRemoval::Waiting { .. } | GreylistRemoval::LongestWaiting => &mut known.waiting,
                GreylistRemoval::Passed { .. } | GreylistRemoval::LongestUnseen => &mut known.passed,
            };
            *count = count.saturating_sub(rows);
        });
    }

    fn change(&self, change: impl FnOnce(&mut GreylistRows)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(change);
    }
}

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
        let passes = self.passes_greylist(client, mail).await.unwrap_or_else(|error| {
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

    async fn passes_greylist(&self, client: IpAddr, mail: &InboundMail<'_>) -> Result<bool, StoreError> {
        let (now, size) = (self.0.clock.now(), self.greylist_size().await?);
        let attempt = GreylistAttempt {
            keys: mail.recipients.iter().map(|recipient| key(client, mail.sender, recipient)).collect(),
            network: network(client, SHARING_PREFIXES).to_string(),
            now,
            before: now.minus(DELAY),
            room: room(size),
        };
        let (answer, change) = self.0.store.greylist().attempt(&attempt).await?;
        self.0.greylist.add(change);
        Ok(match answer {
            GreylistAnswer::Passes => true,
            GreylistAnswer::Waits => false,
            // Many networks together have filled the table. A sender that cannot be remembered would wait for as long as
            // they go on, so mail of other networks passes, except that of the networks that fill it.
            GreylistAnswer::Unlisted { waiting } => attempt.room.waiting == 0 && waiting < INNOCENT,
        })
    }

    async fn greylist_size(&self) -> Result<GreylistRows, StoreError> {
        match self.0.greylist.get() {
            Some(size) => Ok(size),
            None => self.count_greylist().await,
        }
    }

    async fn count_greylist(&self) -> Result<GreylistRows, StoreError> {
        let rows = self.0.store.greylist().rows().await?;
        self.0.greylist.set(rows);
        Ok(rows)
    }

    /// Counts the greylist and warns if it fills up.
    pub(crate) async fn check_greylist(&self) -> Result<(), Unavailable> {
        let GreylistRows { waiting, .. } = self.count_greylist().await?;
        if waiting > MAX_WAITING / 2 {
            tracing::warn!(waiting, most = MAX_WAITING, "many unknown senders fill the greylist");
        }
        Ok(())
    }

    /// Deletes at most `limit` rows of the greylist that are too old or above the maximum number. Returns their number.
    pub(crate) async fn prune_greylist(&self, now: Timestamp, limit: u64) -> Result<u64, Unavailable> {
        let mut removed = 0;
        for removal in [
            GreylistRemoval::Waiting { before: now.minus(WAITING) },
            GreylistRemoval::Passed { before: now.minus(KNOWN) },
            GreylistRemoval::LongestWaiting,
            GreylistRemoval::LongestUnseen,
        ] {
            let most = removable(removal, self.greylist_size().await?).min(limit - removed);
            if most > 0 {
                let rows = self.0.store.greylist().remove(removal, most).await?;
                self.0.greylist.remove(removal, rows);
                removed += rows;
            }
        }
        Ok(removed)
    }
}

/// Returns the maximum number of rows that may be removed.
fn removable(removal: GreylistRemoval, size: GreylistRows) -> u64 {
    match removal {
        GreylistRemoval::Waiting { .. } | GreylistRemoval::Passed { .. } => u64::MAX,
        // Only databases of earlier versions have more than the maximum number of rows that wait.
        GreylistRemoval::LongestWaiting => size.waiting.saturating_sub(MAX_WAITING),
        GreylistRemoval::LongestUnseen => size.passed.saturating_sub(MAX_KNOWN),
    }
}

/// Returns the room for further rows.
fn room(size: GreylistRows) -> GreylistRoom {
    let quarter = size.waiting.saturating_mul(SHARES.len() as u64) / MAX_WAITING;
    let waiting = usize::try_from(quarter).ok().and_then(|quarter| SHARES.get(quarter)).copied().unwrap_or_default();
    GreylistRoom { waiting, passed: SHARE_OF_KNOWN, is_full_of_passed: size.passed >= MAX_KNOWN }
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

/// Returns the network of a client with the prefix length of its kind of address.
fn network(client: IpAddr, prefixes: (u8, u8)) -> IpNet {
    IpNet::new_assert(client, if client.is_ipv4() { prefixes.0 } else { prefixes.1 }).trunc()
}

/// Returns the hash of a client's network, a sender and a recipient.
fn key(client: IpAddr, sender: &str, recipient: &EmailAddress) -> String {
    let network = network(client, PREFIXES);
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
    fn a_fuller_greylist_gives_each_network_less_room() {
        let share = |waiting| room(GreylistRows { waiting, passed: 0 }).waiting;
        let filled = [0, 1, 2, 3, 4, 40].map(|quarters| share(quarters * MAX_WAITING / 4));
        assert_eq!(filled, [1_000, 1_000, 100, 10, 0, 0]);
        assert!(!room(GreylistRows { waiting: 0, passed: MAX_KNOWN - 1 }).is_full_of_passed);
        assert!(room(GreylistRows { waiting: 0, passed: MAX_KNOWN }).is_full_of_passed);
    }

    #[test]
    fn a_subscriber_has_one_share() {
        let of = |client: &str| network(client.parse().unwrap(), SHARING_PREFIXES).to_string();
        assert_eq!(of("192.0.2.7"), of("192.0.2.200"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ffff::1"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
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
