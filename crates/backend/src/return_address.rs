//! The return address of a message, to which its bounces are sent: the bounce mailbox, with the message id
//! and an authentication code as detail (RFC 5233 section 1).
//!
//! The message id alone would not do: it is part of the Message-ID, which is visible wherever the message is
//! quoted or forwarded. The code is visible only to recipients of the message and the servers on its way.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use mailapi_model::{EmailAddress, MessageId};

/// Bytes of a message id, and of the truncated authentication code. A forger would need 2^63 notifications on
/// average.
const ID_BYTES: usize = 16;
const PROOF_BYTES: usize = 8;

/// Characters of the detail: id and code in hexadecimal, which survives servers that change the case.
const DETAIL_LENGTH: usize = 2 * (ID_BYTES + PROOF_BYTES);

/// The key of authentication codes: 32 random bytes, shared by all nodes that send mail or read bounces.
#[derive(Clone, PartialEq, Eq)]
pub struct BounceKey([u8; Self::BYTES]);

impl BounceKey {
    /// Length of a key in bytes.
    pub const BYTES: usize = 32;

    /// Creates a key from these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for BounceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BounceKey(…)")
    }
}

/// Creates and verifies return addresses.
#[derive(Clone)]
pub struct ReturnAddress {
    mailbox: EmailAddress,
    delimiter: char,
    key: hmac::Key,
}

/// Why a mailbox cannot have return addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReturnAddressError {
    /// The local part would exceed 64 octets (RFC 5321 section 4.5.3.1.1).
    #[error("the part before the @ must have at most {} characters", ReturnAddress::MAX_LOCAL)]
    TooLong,
    /// The delimiter has another meaning in addresses, or occurs in the mailbox's local part.
    #[error("the delimiter must be one of + - = _ # ! and must not occur before the @")]
    Delimiter,
}

impl ReturnAddress {
    /// Maximum characters of the mailbox's local part.
    pub const MAX_LOCAL: usize = 64 - 1 - DETAIL_LENGTH;

    const DELIMITERS: [char; 6] = ['+', '-', '=', '_', '#', '!'];

    /// Creates return addresses in this mailbox. `delimiter` separates its local part from the detail, and
    /// must be the mail server's (`recipient_delimiter` in Postfix).
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

    /// Returns the mailbox that receives the bounces.
    #[must_use]
    pub const fn mailbox(&self) -> &EmailAddress {
        &self.mailbox
    }

    /// Returns the return address of a message.
    #[must_use]
    pub fn of(&self, message_id: MessageId) -> String {
        let (local, domain) = (self.mailbox.local(), self.mailbox.domain_str());
        let id = message_id.to_string().replace('-', "");
        let proof: String = self.proof(message_id).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{local}{}{id}{proof}@{domain}", self.delimiter)
    }

    /// Returns the message id of a return address; `None` if its code is missing or wrong.
    #[must_use]
    pub fn message_id(&self, address: &str) -> Option<MessageId> {
        self.message_id_of(&address.parse().ok()?)
    }

    /// Like [`ReturnAddress::message_id`], for a parsed address.
    #[must_use]
    pub fn message_id_of(&self, address: &EmailAddress) -> Option<MessageId> {
        if address.domain_str() != self.mailbox.domain_str() {
            return None;
        }
        let detail = address.local().strip_prefix(self.mailbox.local())?.strip_prefix(self.delimiter)?;
        let (id, proof) = split(detail)?;
        // In constant time, so that timing does not help to guess the code.
        let is_ours = verify_slices_are_equal(&proof, &self.proof(id)).is_ok();
        is_ours.then_some(id)
    }

    /// Returns whether an address has the form of a return address, without verifying its code.
    #[must_use]
    pub fn claims_to_be_ours(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<EmailAddress>() else { return false };
        let local = address.local().strip_prefix(self.mailbox.local());
        address.domain_str() == self.mailbox.domain_str() && local.is_some_and(|rest| rest.starts_with(self.delimiter))
    }

    fn proof(&self, message_id: MessageId) -> [u8; PROOF_BYTES] {
        let code = hmac::sign(&self.key, message_id.to_string().as_bytes());
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(&code.as_ref()[..PROOF_BYTES]);
        proof
    }
}

impl fmt::Debug for ReturnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReturnAddress").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

/// Splits a detail into message id and code.
fn split(detail: &str) -> Option<(MessageId, [u8; PROOF_BYTES])> {
    let fits = detail.len() == DETAIL_LENGTH && detail.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (id, proof) = fits.then(|| detail.split_at(2 * ID_BYTES))?;
    // Restore the groups of a UUID (RFC 9562 section 4), the only valid form of a message id.
    let groups = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    let mut bytes = [0; PROOF_BYTES];
    for (byte, digits) in bytes.iter_mut().zip(proof.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some((groups.join("-").parse().ok()?, bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn addresses(key: u8) -> ReturnAddress {
        let mailbox = "bounces@example.org".parse().unwrap();
        ReturnAddress::new(mailbox, '+', &BounceKey::new([key; BounceKey::BYTES])).unwrap()
    }

    #[test]
    fn what_cannot_be_a_return_address_is_refused() {
        let key = BounceKey::new([1; BounceKey::BYTES]);
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
    fn without_the_key_no_valid_address_can_be_made() {
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
