//! The address that a message's bounces go to: the bounces' mailbox with our identifier of the message in its detail
//! (RFC 5233 section 1), and a proof that we wrote it.
//!
//! The identifier alone would not do: it stands in the Message-ID, which goes to everybody whom the message is quoted
//! or forwarded to. The proof is known to those who got the message itself, and to the servers on its way.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use mailapi_model::{EmailAddress, MessageId};

/// Octets of an identifier, and of the part of the code that is kept: a forger would need 2^63 notifications for one
/// that is believed.
const ID_OCTETS: usize = 16;
const PROOF_OCTETS: usize = 8;

/// Characters of the detail: both in hexadecimal digits, which survive servers that change the case.
const DETAIL_LENGTH: usize = 2 * (ID_OCTETS + PROOF_OCTETS);

/// What proofs are made of: 32 random octets, the same on all machines that hand over mail or read bounces.
#[derive(Clone, PartialEq, Eq)]
pub struct BounceKey([u8; Self::OCTETS]);

impl BounceKey {
    /// How many octets a key has.
    pub const OCTETS: usize = 32;

    /// A key of these octets.
    #[must_use]
    pub const fn new(octets: [u8; Self::OCTETS]) -> Self {
        Self(octets)
    }
}

impl fmt::Debug for BounceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BounceKey(…)")
    }
}

/// Writes return addresses, and recognises them.
#[derive(Clone)]
pub struct ReturnAddress {
    mailbox: EmailAddress,
    delimiter: char,
    key: hmac::Key,
}

/// Why a mailbox cannot have return addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReturnAddressError {
    /// RFC 5321 section 4.5.3.1.1 allows 64 octets in front of the `@`.
    #[error("the part before the @ must have at most {} characters", ReturnAddress::MAX_LOCAL)]
    TooLong,
    /// The delimiter has a meaning of its own in addresses, or occurs in the mailbox's.
    #[error("the delimiter must be one of + - = _ # ! and must not occur before the @")]
    Delimiter,
}

impl ReturnAddress {
    /// The most characters before the `@` of the mailbox.
    pub const MAX_LOCAL: usize = 64 - 1 - DETAIL_LENGTH;

    const DELIMITERS: [char; 6] = ['+', '-', '=', '_', '#', '!'];

    /// Return addresses in this mailbox; `delimiter` stands between its name and the detail, as the mail server has
    /// it (`recipient_delimiter` of Postfix).
    ///
    /// # Errors
    /// See [`ReturnAddressError`].
    pub fn new(mailbox: EmailAddress, delimiter: char, key: &BounceKey) -> Result<Self, ReturnAddressError> {
        if mailbox.local().len() > Self::MAX_LOCAL {
            return Err(ReturnAddressError::TooLong);
        }
        if !Self::DELIMITERS.contains(&delimiter) || mailbox.local().contains([delimiter, '"']) {
            return Err(ReturnAddressError::Delimiter);
        }
        Ok(Self { mailbox, delimiter, key: hmac::Key::new(hmac::HMAC_SHA256, &key.0) })
    }

    /// Where the bounces arrive.
    #[must_use]
    pub const fn mailbox(&self) -> &EmailAddress {
        &self.mailbox
    }

    /// The address for one message.
    #[must_use]
    pub fn of(&self, message_id: MessageId) -> String {
        let (local, domain) = (self.mailbox.local(), self.mailbox.domain_str());
        let id = message_id.to_string().replace('-', "");
        let proof: String = self.proof(message_id).iter().map(|octet| format!("{octet:02x}")).collect();
        format!("{local}{}{id}{proof}@{domain}", self.delimiter)
    }

    /// Which message's this address is; none of ours when the proof is missing or wrong.
    #[must_use]
    pub fn message_id(&self, address: &str) -> Option<MessageId> {
        self.message_id_of(&address.parse().ok()?)
    }

    /// The same for an address that was read already.
    #[must_use]
    pub fn message_id_of(&self, address: &EmailAddress) -> Option<MessageId> {
        if address.domain_str() != self.mailbox.domain_str() {
            return None;
        }
        let detail = address.local().strip_prefix(self.mailbox.local())?.strip_prefix(self.delimiter)?;
        let (id, proof) = split(detail)?;
        let is_ours = verify_slices_are_equal(&proof, &self.proof(id)).is_ok();
        is_ours.then_some(id)
    }

    /// Whether an address looks like one of ours, whatever its proof.
    #[must_use]
    pub fn claims_to_be_ours(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<EmailAddress>() else { return false };
        let local = address.local().strip_prefix(self.mailbox.local());
        address.domain_str() == self.mailbox.domain_str() && local.is_some_and(|rest| rest.starts_with(self.delimiter))
    }

    fn proof(&self, message_id: MessageId) -> [u8; PROOF_OCTETS] {
        let code = hmac::sign(&self.key, message_id.to_string().as_bytes());
        let mut proof = [0; PROOF_OCTETS];
        proof.copy_from_slice(&code.as_ref()[..PROOF_OCTETS]);
        proof
    }
}

impl fmt::Debug for ReturnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReturnAddress").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

/// The identifier and the proof in a detail.
fn split(detail: &str) -> Option<(MessageId, [u8; PROOF_OCTETS])> {
    let fits = detail.len() == DETAIL_LENGTH && detail.bytes().all(|octet| octet.is_ascii_hexdigit());
    let (id, proof) = fits.then(|| detail.split_at(2 * ID_OCTETS))?;
    // The groups of a UUID (RFC 9562 section 4): the only spelling that is an identifier of ours.
    let groups = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    let mut octets = [0; PROOF_OCTETS];
    for (octet, digits) in octets.iter_mut().zip(proof.as_bytes().chunks(2)) {
        *octet = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some((groups.join("-").parse().ok()?, octets))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn addresses(key: u8) -> ReturnAddress {
        let mailbox = "bounces@example.org".parse().unwrap();
        ReturnAddress::new(mailbox, '+', &BounceKey::new([key; BounceKey::OCTETS])).unwrap()
    }

    #[test]
    fn what_cannot_be_a_return_address_is_refused() {
        let key = BounceKey::new([1; BounceKey::OCTETS]);
        let new = |mailbox: &str, delimiter| ReturnAddress::new(mailbox.parse().unwrap(), delimiter, &key).err();
        assert_eq!(
            new("sixteen-letters.@example.org".replace("s.", "sx").as_str(), '+'),
            Some(ReturnAddressError::TooLong)
        );
        assert_eq!(new("bounces@example.org", '@'), Some(ReturnAddressError::Delimiter));
        assert_eq!(new("our-bounces@example.org", '-'), Some(ReturnAddressError::Delimiter));
        assert_eq!(new("fifteen-letters@example.org", '+'), None);
    }

    #[test]
    fn nobody_else_can_write_one() {
        let (ours, theirs) = (addresses(1), addresses(2));
        let id: MessageId = OURS.parse().unwrap();
        let address = ours.of(id);
        assert_eq!(theirs.message_id(&address), None);
        let last = if address.contains("0@") { "1@" } else { "0@" };
        let at = address.find('@').unwrap();
        let forged = format!("{}{last}{}", &address[..at - 1], &address[at + 1..]);
        for other in [
            forged.as_str(),
            &address.replace("bounces", "bounce"),
            &address.replace("example.org", "example.com"),
            &format!("bounces+{OURS}@example.org"),
            "bounces+@example.org",
            "bounces@example.org",
            "",
        ] {
            assert_eq!(ours.message_id(other), None, "{other}");
        }
        assert!(ours.claims_to_be_ours(&forged) && !ours.claims_to_be_ours("bounces@example.org"));
    }

    #[test]
    fn a_return_address_is_recognised_in_any_case_and_is_short() {
        let (addresses, id) = (addresses(1), OURS.parse().unwrap());
        let address = addresses.of(id);
        assert!(address.split_once('@').unwrap().0.len() <= 64, "{address}");
        assert_eq!(addresses.message_id(&address), Some(id));
        assert_eq!(addresses.message_id(&address.to_uppercase()), Some(id));
        assert!(!format!("{addresses:?} {:?}", BounceKey::new([1; 32])).contains('1'));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(bounces\\+[0-9a-fA-F]{46,50}|\\PC{0,60})(@example.org)?") {
            prop_assert_eq!(addresses(1).message_id(&text), None);
        }
    }
}
