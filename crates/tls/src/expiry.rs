//! End of a certificate's validity.

/// Tags of the encoding (X.690).
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which is not in every certificate.
const VERSION: u8 = 0xa0;

/// Returns the end of the validity of a certificate in DER, in seconds since the Unix epoch; `None` if it cannot be
/// read (RFC 5280 section 4.1).
#[must_use]
pub fn expires_at(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut signed, _) = element(certificate, SEQUENCE)?;
    if let Some((_, rest)) = element(signed, VERSION) {
        signed = rest;
    }
    // Serial number, signature algorithm and issuer come before the validity.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        signed = element(signed, tag)?.1;
    }
    let (validity, _) = element(signed, SEQUENCE)?;
    let (_, after_begin) = time(validity)?;
    time(after_begin).map(|(end, _)| end)
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

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["mx.example.org".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read() {
        for ((year, month, day), seconds) in [
            ((2026, 11, 22), 1_795_305_600),
            ((2028, 2, 29), 1_835_395_200),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((4096, 1, 1), 67_090_118_400),
        ] {
            assert_eq!(expires_at(&certificate(year, month, day)), Some(seconds), "{year}-{month}-{day}");
        }
        let whole = certificate(2026, 11, 22);
        assert_eq!(expires_at(&whole[..whole.len() / 4]), None);
        assert_eq!(expires_at(b""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200, new: u8) {
            let _ = expires_at(&bytes);
            let mut damaged = certificate(2030, 1, 1);
            let at = at % damaged.len();
            damaged[at] = new;
            let _ = expires_at(&damaged);
        }
    }
}
