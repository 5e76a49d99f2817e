//! The Sender Rewriting Scheme: envelope senders of forwarded mail.
//!
//! A forwarder that kept the sender's address would fail SPF at the next server. It sends as an address of its own domain
//! instead, which contains the sender's. Bounces come back to that address and are passed on to the sender. An
//! authentication code and a date prevent anyone else from sending mail through such addresses.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use mailapi_model::{DomainName, EmailAddress, Timestamp};

use crate::BounceKey;

/// The first word of a rewritten address, as all implementations write it.
const TAG: &str = "SRS0";

/// Separator of the parts. The sender's local part is the last one, so it may contain further ones.
const SEPARATOR: char = '=';

/// Characters of codes and dates: base 32 without case, because servers may change the case (RFC 4648 section 6).
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Characters of the authentication code: 50 bits.
const CODE_LENGTH: usize = 10;

/// Days are counted modulo 1,024, which two characters express.
const DAYS: i64 = 32 * 32;

/// How long bounces come back. Servers give up after five days (RFC 5321 section 4.5.4.1); some take longer.
const LIFETIME_DAYS: i64 = 14;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates and verifies rewritten senders.
#[derive(Clone)]
pub struct SenderRewriting(hmac::Key);

/// Why a rewritten sender is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RewrittenSenderError {
    /// It was not created with this key, or was changed.
    #[error("the return address is not valid")]
    Forged,
    /// It is too old.
    #[error("the return address has expired")]
    Expired,
}

impl SenderRewriting {
    /// Creates the scheme with a key that also has other uses: the codes differ from all others.
    #[must_use]
    pub fn new(key: &BounceKey) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// Returns the envelope sender in `domain` of mail that is forwarded for `sender`; `None` if no address can contain
    /// the sender's.
    #[must_use]
    pub fn rewritten(&self, sender: &EmailAddress, domain: &DomainName, now: Timestamp) -> Option<EmailAddress> {
        let wire = sender.wire();
        let (local, of_sender) = wire.rsplit_once('@')?;
        let today = day(now);
        let (date, code) = (date(today), self.code(today, of_sender, local, domain.as_str()));
        EmailAddress::as_given(&format!("{TAG}={code}={date}={of_sender}={local}@{}", domain.as_str())).ok()
    }

    /// Returns the sender in a rewritten address; `None` if the address has another form.
    ///
    /// # Errors
    /// [`RewrittenSenderError`] if it has the form and must not be used.
    pub fn sender_in(
        &self,
        address: &EmailAddress,
        now: Timestamp,
    ) -> Option<Result<EmailAddress, RewrittenSenderError>> {
        let wire = address.wire();
        let (local, domain) = wire.rsplit_once('@')?;
        let (tag, rest) = local.split_at_checked(TAG.len())?;
        let rest = rest.strip_prefix(SEPARATOR).filter(|_| tag.eq_ignore_ascii_case(TAG))?;
        Some(self.verified(rest, domain, now))
    }

    fn verified(&self, rest: &str, domain: &str, now: Timestamp) -> Result<EmailAddress, RewrittenSenderError> {
        let mut parts = rest.splitn(4, SEPARATOR);
        let mut next = || parts.next().ok_or(RewrittenSenderError::Forged);
        let (code, date, of_sender, local) = (next()?, next()?, next()?, next()?);
        let (code, date) = (code.to_ascii_lowercase(), date.to_ascii_lowercase());
        let written = day_of(&date, day(now))?;
        let expected = self.code(written, of_sender, local, domain);
        // In constant time, so that timing does not help to guess the code.
        verify_slices_are_equal(code.as_bytes(), expected.as_bytes()).map_err(|_| RewrittenSenderError::Forged)?;
        EmailAddress::as_given(&format!("{local}@{of_sender}")).map_err(|_| RewrittenSenderError::Forged)
    }

    /// Returns the code of an address of this day. The address has the day modulo 1,024 only; with the whole number in the
    /// code, it does not become valid again.
    fn code(&self, day: i64, of_sender: &str, local: &str, domain: &str) -> String {
        let text = format!("srs0\n{day}\n{of_sender}\n{local}\n{domain}").to_lowercase();
        let tag = hmac::sign(&self.0, text.as_bytes());
        tag.as_ref()[..CODE_LENGTH].iter().map(|byte| letter(i64::from(*byte))).collect()
    }
}

impl fmt::Debug for SenderRewriting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SenderRewriting(…)")
    }
}

fn day(now: Timestamp) -> i64 {
    let day_millis = i64::try_from(DAY.as_millis()).unwrap_or(i64::MAX);
    now.as_millis().div_euclid(day_millis)
}

fn date(day: i64) -> String {
    [day.rem_euclid(DAYS) / 32, day].map(letter).iter().collect()
}

/// Returns the day of a date, if it is one of the last days.
fn day_of(date: &str, today: i64) -> Result<i64, RewrittenSenderError> {
    let written = days(date).ok_or(RewrittenSenderError::Forged)?;
    // A clock that was set back makes an address look a day younger than new.
    let age = (today - written + 1).rem_euclid(DAYS) - 1;
    if age > LIFETIME_DAYS { Err(RewrittenSenderError::Expired) } else { Ok(today - age) }
}

/// Returns the number of a date; `None` if it is none.
fn days(date: &str) -> Option<i64> {
    let value = |byte: &u8| LETTERS.iter().position(|letter| letter == byte);
    let [high, low] = date.as_bytes() else { return None };
    i64::try_from(32 * value(high)? + value(low)?).ok()
}

/// Returns the character of the lowest five bits.
fn letter(value: i64) -> char {
    LETTERS.get(usize::try_from(value.rem_euclid(32)).unwrap_or_default()).map_or('a', |letter| char::from(*letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scheme(key: u8) -> SenderRewriting {
        SenderRewriting::new(&BounceKey::new([key; BounceKey::BYTES]))
    }

    fn at(days: i64) -> Timestamp {
        Timestamp::from_seconds(1_795_000_000 + days * 24 * 60 * 60)
    }

    fn address(text: &str) -> EmailAddress {
        EmailAddress::as_given(text).unwrap()
    }

    fn rewritten(sender: &str) -> EmailAddress {
        scheme(1).rewritten(&address(sender), &"here.example".parse().unwrap(), at(0)).unwrap()
    }

    #[test]
    fn a_forged_or_changed_address_is_refused() {
        let ours = rewritten("zoe@far.example");
        let text = ours.wire().into_owned();
        assert_eq!(scheme(2).sender_in(&ours, at(0)), Some(Err(RewrittenSenderError::Forged)));
        for (from, to) in [("zoe", "eve"), ("far.example", "other.example"), ("here.example", "there.example")] {
            let changed = address(&text.replace(from, to));
            assert_eq!(scheme(1).sender_in(&changed, at(0)), Some(Err(RewrittenSenderError::Forged)), "{changed}");
        }
        for text in ["SRS0=@here.example", "srs0=a=b@here.example", "SRS0=a=b=c@here.example"] {
            assert_eq!(scheme(1).sender_in(&address(text), at(0)), Some(Err(RewrittenSenderError::Forged)), "{text}");
        }
        for text in ["srs@here.example", "SRS0@here.example", "SRS1=a=b=c=d@here.example", "zoe@here.example"] {
            assert_eq!(scheme(1).sender_in(&address(text), at(0)), None, "{text}");
        }
    }

    #[test]
    fn an_old_address_is_refused() {
        let ours = rewritten("zoe@far.example");
        for days in [-1, 0, 1, 14] {
            assert_eq!(scheme(1).sender_in(&ours, at(days)), Some(Ok(address("zoe@far.example"))), "{days}");
        }
        for days in [15, 100, 900] {
            assert_eq!(scheme(1).sender_in(&ours, at(days)), Some(Err(RewrittenSenderError::Expired)), "{days}");
        }
        for days in [DAYS - 1, DAYS, DAYS + 14, 2 * DAYS] {
            assert_eq!(scheme(1).sender_in(&ours, at(days)), Some(Err(RewrittenSenderError::Forged)), "{days}");
        }
    }

    #[test]
    fn the_sender_comes_back_in_any_case_and_as_it_was_given() {
        let ours = rewritten("Zoe.Lee+x=y@far.example");
        let back = scheme(1).sender_in(&ours, at(3)).unwrap().unwrap();
        assert_eq!(back.wire(), "Zoe.Lee+x=y@far.example");
        let shouted = address(&ours.wire().to_uppercase());
        assert!(scheme(1).sender_in(&shouted, at(3)).unwrap().is_ok());
        // Forwarded by another forwarder before.
        let twice = scheme(1).rewritten(&ours, &"there.example".parse().unwrap(), at(0)).unwrap();
        assert_eq!(scheme(1).sender_in(&twice, at(0)), Some(Ok(ours)));
        assert_eq!(format!("{:?}", scheme(1)), "SenderRewriting(…)");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(SRS0=|srs0=)?\\PC{0,60}(@here.example)?") {
            if let Ok(address) = EmailAddress::as_given(&text) {
                prop_assert!(!matches!(scheme(1).sender_in(&address, at(0)), Some(Ok(_))));
            }
        }
    }
}
