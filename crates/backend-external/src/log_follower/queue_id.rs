//! The parts of a queue id: the time at which Postfix created the queue file, and the file's inode number.
//!
//! | form | parts |
//! |---|---|
//! | short | microseconds (5 hexadecimal digits), inode (hexadecimal) |
//! | long (`enable_long_queue_ids`) | seconds (6 or more digits of base 52), microseconds (4), `z`, inode (base 51) |

/// The digits of long queue ids in the order of their values: no vowels, and `z` only in base 52.
const DIGITS: &[u8; 52] = b"0123456789BCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz";
/// The minimum number of digits before the `z` of a long queue id.
const LONG_TIME: usize = 10;
/// The number of digits for the microseconds in each form.
const SHORT_MICROS: usize = 5;
const LONG_MICROS: usize = 4;

/// Returns the inode number of the queue file; `None` if the text is not a queue id.
pub(super) fn inode(id: &str) -> Option<u64> {
    match long_parts(id) {
        Some((_, inode)) => number(inode, 51),
        None => u64::from_str_radix(id.get(SHORT_MICROS..)?, 16).ok(),
    }
}

/// Returns whether the text has the form of a queue id. Words with a meaning to postsuper(1), such as `ALL`, have not.
pub(crate) fn is_queue_id(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_alphanumeric()) && inode(id).is_some()
}

/// Returns the name that postsuper(1) gives to a queue file with a long queue id when Postfix starts with
/// `enable_long_queue_ids = no`. Returns `None` for a short queue id.
pub(super) fn short_form(id: &str) -> Option<String> {
    let (time, inode) = long_parts(id)?;
    let micros = number(time.get(time.len() - LONG_MICROS..)?, 52)?;
    Some(format!("{micros:05X}{:X}", number(inode, 51)?))
}

/// Splits a long queue id at its `z`.
fn long_parts(id: &str) -> Option<(&str, &str)> {
    id.rsplit_once('z').filter(|(time, _)| time.len() >= LONG_TIME)
}

fn number(digits: &str, base: u64) -> Option<u64> {
    let values = digits.bytes().map(|digit| DIGITS.iter().position(|known| *known == digit));
    let values = values.map(|value| value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value < base));
    let is_empty = digits.is_empty();
    let sum = |sum: u64, value: Option<u64>| sum.checked_mul(base)?.checked_add(value?);
    values.into_iter().try_fold(0, sum).filter(|_| !is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_queue_id_has_no_inode() {
        for text in ["", "NOQUEUE", "warning", "A0000", "A0000G", "4jXsKf6thLz", "4jXsKf6thLz1SRkA", "4jXsKf6thLzé"] {
            assert_eq!((inode(text), short_form(text)), (None, None), "{text}");
            assert!(!is_queue_id(text), "{text}");
        }
        for text in ["ALL", "-", "-d", "00000+1", "4jXsK 1", "é0000A"] {
            assert!(!is_queue_id(text), "{text}");
        }
        let too_large = format!("4jXsKf6thLz{}", "y".repeat(20));
        assert_eq!(inode(&too_large), None);
    }

    #[test]
    fn both_forms_contain_the_inode() {
        // As listed by ls -i in the queue of a Postfix 3.7.
        assert_eq!(inode("4jXsKf6thLz1SRkq"), Some(10_010_629));
        assert_eq!(inode("D3ED49F8048"), Some(0x9F_8048));
        assert_eq!(short_form("D3ED49F8048"), None);
        assert!(is_queue_id("4jXsKf6thLz1SRkq") && is_queue_id("D3ED49F8048"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9A-Za-z]{0,12}z?[0-9A-Za-z]{0,20}|\\PC{0,30}") {
            let _ = (inode(&text), short_form(&text));
        }

        #[test]
        fn the_short_form_has_the_same_inode(time in "[0-9B-Z]{6}[0-4][0-9B-DF-HJ-NP-TV-Z]{3}", number in "[1-9B-DF-HJ-NP-TV-Z]{1,8}") {
            let long = format!("{time}z{number}");
            let short = short_form(&long).unwrap();
            prop_assert_eq!(inode(&short), inode(&long).filter(|_| short.len() > SHORT_MICROS));
        }
    }
}
