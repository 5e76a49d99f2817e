//! The parts of a certificate that no other crate reads for us: validity, public key, and the identity for renewal
//! information.

use sha2::{Digest, Sha256};

/// Tags of the encoding (X.690).
const SEQUENCE: u8 = 0x30;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which is not in every certificate.
const VERSION: u8 = 0xa0;
/// The unique identifiers of issuer and subject, which hardly any certificate has.
const UNIQUE_IDENTIFIERS: [u8; 2] = [0x81, 0x82];
/// The extensions of a certificate.
const EXTENSIONS: u8 = 0xa3;
/// The key identifier in an authority key identifier.
const KEY_IDENTIFIER: u8 = 0x80;
/// `id-ce-authorityKeyIdentifier`, 2.5.29.35 (RFC 5280 section 4.2.1.1).
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// When a certificate is valid, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub begins_at: i64,
    /// Its last second.
    pub expires_at: i64,
}

impl Validity {
    /// Returns the validity of a certificate in DER; `None` if it cannot be read (RFC 5280 section 4.1).
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (validity, _) = element(signed_part(certificate)?.1, SEQUENCE)?;
        let (begins_at, rest) = time(validity)?;
        let (expires_at, _) = time(rest)?;
        Some(Self { begins_at, expires_at })
    }
}

/// What names a certificate to its authority: the authority's key identifier, and the serial number (RFC 9773 section
/// 4.1). Both are the contents of their DER elements.
#[must_use]
pub fn renewal_identity(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (serial, after_issuer) = signed_part(certificate)?;
    let mut rest = after_issuer;
    // Validity, subject and public key come before the extensions.
    for _ in 0..3 {
        rest = element(rest, SEQUENCE)?.1;
    }
    for unique_identifier in UNIQUE_IDENTIFIERS {
        rest = element(rest, unique_identifier).map_or(rest, |(_, after)| after);
    }
    let (extensions, _) = element(rest, EXTENSIONS)?;
    let (mut extensions, _) = element(extensions, SEQUENCE)?;
    while let Some((extension, next)) = element(extensions, SEQUENCE) {
        if let Some(identifier) = authority_key_identifier(extension) {
            return Some((identifier, serial));
        }
        extensions = next;
    }
    None
}

/// Returns the public key of a certificate with its algorithm, the whole DER element (RFC 5280 section 4.1.2.7).
pub(crate) fn public_key_info(certificate: &[u8]) -> Option<&[u8]> {
    let (_, after_issuer) = signed_part(certificate)?;
    // Validity and subject come before the key.
    let (_, rest) = element(after_issuer, SEQUENCE)?;
    let (_, key) = element(rest, SEQUENCE)?;
    let (_, rest) = element(key, SEQUENCE)?;
    key.get(..key.len() - rest.len())
}

/// Returns the SHA-256 of the public key of a certificate, by which DNS names it (RFC 7672 section 3.1); `None` if it cannot be
/// read.
#[must_use]
pub fn key_digest_of(certificate: &[u8]) -> Option<[u8; 32]> {
    public_key_info(certificate).map(key_digest)
}

/// Returns the SHA-256 of a public key with its algorithm, in DER.
#[must_use]
pub fn key_digest(public_key_info: &[u8]) -> [u8; 32] {
    Sha256::digest(public_key_info).into()
}

/// The public key of a certificate, of any version and with any extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublicKey<'a> {
    /// The content of its algorithm's identifier (RFC 5280 section 4.1.1.2).
    pub(crate) algorithm: &'a [u8],
    /// The key itself.
    pub(crate) bytes: &'a [u8],
}

impl<'a> PublicKey<'a> {
    /// Returns the key of a certificate in DER; `None` if it cannot be read.
    pub(crate) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (key, _) = element(public_key_info(certificate)?, SEQUENCE)?;
        let (algorithm, rest) = element(key, SEQUENCE)?;
        let (bits, _) = element(rest, BIT_STRING)?;
        // A key is whole octets, so no bit of the last one is unused.
        Some(Self { algorithm, bytes: bits.strip_prefix(&[0])? })
    }

    /// Returns the octets of the modulus of an RSA key; `None` if it cannot be read (RFC 8017 appendix A.1.1).
    pub(crate) fn rsa_octets(&self) -> Option<usize> {
        let (numbers, _) = element(self.bytes, SEQUENCE)?;
        let (modulus, _) = element(numbers, INTEGER)?;
        Some(modulus.len() - modulus.iter().take_while(|octet| **octet == 0).count())
    }
}

/// Returns whether issuer and subject of a certificate are the same, as in one that no authority issued; `None` if they
/// cannot be read.
pub(crate) fn is_self_issued(certificate: &[u8]) -> Option<bool> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    let signed = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, rest) = element(signed, INTEGER)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (issuer, rest) = element(rest, SEQUENCE)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (subject, _) = element(rest, SEQUENCE)?;
    Some(issuer == subject)
}

/// Returns the key identifier if the extension is an authority key identifier.
fn authority_key_identifier(extension: &[u8]) -> Option<&[u8]> {
    let (name, value) = element(extension, OBJECT_IDENTIFIER)?;
    let value = element(value, BOOLEAN).map_or(value, |(_, after_critical)| after_critical);
    let (value, _) = element(value, OCTET_STRING)?;
    let (value, _) = element(value, SEQUENCE)?;
    let (identifier, _) = element(value, KEY_IDENTIFIER)?;
    (name == AUTHORITY_KEY_IDENTIFIER).then_some(identifier)
}

/// Returns the serial number, and the rest of the signed part after the issuer.
fn signed_part(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut signed, _) = element(certificate, SEQUENCE)?;
    if let Some((_, rest)) = element(signed, VERSION) {
        signed = rest;
    }
    let (serial, rest) = element(signed, INTEGER)?;
    // The signature algorithm and the issuer.
    let (_, rest) = element(rest, SEQUENCE)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    Some((serial, rest))
}

/// Splits the content of the first element from the elements after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // No certificate is longer than four octets of length can express.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// Reads a time, `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, year_digits) = match (element(bytes, UTC_TIME), element(bytes, GENERALIZED_TIME)) {
        (Some((text, rest)), _) => (text, rest, 2),
        (None, Some((text, rest))) => (text, rest, 4),
        (None, None) => return None,
    };
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.len() == year_digits + 10)?;
    let (year, others) = digits.split_at(year_digits);
    let year = match (number(year)?, year_digits) {
        // RFC 5280 section 4.1.2.5.1: two digits mean 1950 to 2049.
        (year, 2) => year + if year < 50 { 2000 } else { 1900 },
        (year, _) => year,
    };
    let mut parts = others.chunks(2).map(number);
    let mut next = || parts.next().flatten();
    let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
    let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    is_valid.then(|| (((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// Returns the days from 1 January 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with the leap day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Months from March on have 31, 30, 31, 30, 31 days, again and again.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - EPOCH
}

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["mx.example.org".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_validity_of_a_certificate_is_read() {
        for ((year, month, day), seconds) in [
            ((2026, 11, 22), 1_795_305_600),
            ((2028, 2, 29), 1_835_395_200),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((4096, 1, 1), 67_090_118_400),
        ] {
            let expected = Validity { begins_at: 1_767_225_600, expires_at: seconds };
            assert_eq!(Validity::of(&certificate(year, month, day)), Some(expected), "{year}-{month}-{day}");
        }
        let whole = certificate(2026, 11, 22);
        assert_eq!(Validity::of(&whole[..whole.len() / 4]), None);
        assert_eq!(Validity::of(b""), None);
    }

    #[test]
    fn a_certificate_without_an_authority_has_no_identity() {
        assert_eq!(renewal_identity(&certificate(2030, 1, 1)), None);
    }

    #[test]
    fn the_identity_is_that_of_the_standard() {
        // The certificate of RFC 9773 appendix A.
        let pem = include_bytes!("rfc9773.pem");
        let certificate = CertificateDer::from_pem_slice(pem).unwrap();
        let (authority, serial) = renewal_identity(&certificate).unwrap();
        let shown = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(shown(authority), "69885b6b87464041e1b37b847bc0ae2cde01c8d4");
        assert_eq!(shown(serial), "0087654321");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200, new: u8) {
            let _ = (Validity::of(&bytes), renewal_identity(&bytes), public_key_info(&bytes));
            let mut damaged = certificate(2030, 1, 1);
            let at = at % damaged.len();
            damaged[at] = new;
            let _ = (Validity::of(&damaged), renewal_identity(&damaged), public_key_info(&damaged));
        }
    }
}
