//! SMTP replies (RFC 5321 section 4.2) and enhanced codes (RFC 3463) in what servers write for people.

use mailapi_model::EnhancedCode;

/// Words after which servers quote a reply.
const BEFORE: [&str; 10] =
    ["said", "error", "code", "reply", "replied", "response", "responded", "status", "reason", "answered"];
/// Units behind a number, which is then a size or a time, not a reply.
const UNITS: [&str; 9] = ["byte", "octet", "second", "minute", "hour", "day", "kb", "mb", "message"];

/// Returns the class of the last reply in some lines: servers quote the last answer last.
pub(super) fn reply_class<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<u8> {
    lines.rev().find_map(class_in_line)
}

fn class_in_line(line: &str) -> Option<u8> {
    let words: Vec<&str> = line.split_whitespace().collect();
    (0..words.len()).rev().find_map(|place| class_at(&words, place))
}

/// A reply begins a line, or follows a word or a mark with which servers quote.
fn class_at(words: &[&str], place: usize) -> Option<u8> {
    let word = words[place];
    let code = number(word).or_else(|| listed_code(word).map(|code| code.class))?;
    let is_quoted = match place.checked_sub(1).map(|before| words[before]) {
        None => true,
        Some(before) => {
            word.starts_with('#')
                || word.starts_with("(#")
                || (word.starts_with(['(', '[']) && word.ends_with([')', ']', ':']))
                || before.ends_with([':', '<', '>', ')', ',', '-', ';'])
                || number(before).is_some()
                || BEFORE.iter().any(|known| known.eq_ignore_ascii_case(trimmed(before)))
        }
    };
    let next = words.get(place + 1).map(|next| next.to_ascii_lowercase()).unwrap_or_default();
    let is_counted = UNITS.iter().any(|unit| next.starts_with(unit));
    // `555 123456` and `(555) 123-4567` are telephone numbers.
    let is_telephone =
        next.starts_with(|c: char| c.is_ascii_digit()) && number(&next).is_none() && listed_code(&next).is_none();
    (is_quoted && !is_counted && !is_telephone).then_some(code)
}

/// Returns the class of `550`, `550-text` or `550-5.1.1`. The second digit is at most 5 (RFC 5321 section 4.2.1).
fn number(word: &str) -> Option<u8> {
    let (code, rest) = word.split_once('-').unwrap_or((word, ""));
    let code = trimmed(code).as_bytes();
    let is_reply = matches!(code, [b'2' | b'4' | b'5', b'0'..=b'5', b'0'..=b'9']);
    let is_joined = !rest.starts_with(|c: char| c.is_ascii_digit()) || listed_code(rest).is_some();
    (is_reply && is_joined).then(|| code[0] - b'0')
}

/// Parses an enhanced code of a listed subject (RFC 3463 section 3), so that most versions are none.
fn listed_code(word: &str) -> Option<EnhancedCode> {
    trimmed(word).parse().ok().filter(|code: &EnhancedCode| code.subject <= 7)
}

/// Returns the enhanced code of a failure beside a reply (RFC 2034), as in `550 5.1.1 No such user` or `(#5.1.1)`.
pub(super) fn enhanced_code(text: &str) -> Option<EnhancedCode> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let code = |word: &str| listed_code(word).filter(|code| code.class != 2);
    let behind_reply = |place: usize| {
        let word = words[place];
        // `550-5.1.1` is one word.
        let joined = word.split_once('-').filter(|(reply, _)| number(reply).is_some()).and_then(|(_, word)| code(word));
        joined.or_else(|| Some(words.get(place + 1)?).filter(|_| number(word).is_some()).and_then(|next| code(next)))
    };
    let in_brackets =
        |word: &&&str| word.trim_start_matches(['(', '[']).starts_with('#') || word.starts_with(['(', '[']);
    let marked = || words.iter().filter(in_brackets).find_map(|word| code(word));
    let quoted = || (0..words.len()).find_map(|place| code(words[place]).filter(|_| class_at(&words, place).is_some()));
    (0..words.len()).find_map(behind_reply).or_else(marked).or_else(quoted)
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(line: &str) -> Option<u8> {
        reply_class(std::iter::once(line))
    }

    #[test]
    fn numbers_that_are_no_replies_are_passed_over() {
        for line in [
            "",
            "call 555-1234",
            "Contact: 555 123456",
            "phone (555) 123-4567",
            "4500 users",
            "at 12:45",
            "[192.0.2.4]",
            "host: 10.4.1.1",
            "x5.1.1",
            "size: 512 bytes",
            "your order 550 is on its way",
            "Exim 4.96.2 says no",
            "contact 480-624-2500",
        ] {
            assert_eq!(class(line), None, "{line}");
        }
    }

    #[test]
    fn replies_are_found_with_and_without_their_codes() {
        for (line, expected) in [
            ("550 5.1.1 unknown", 5),
            ("said: 550-5.7.26 not aligned", 5),
            ("550: 5.1.1 <a@b>", 5),
            ("unknown (#5.1.1)", 5),
            ("host said: 451 later", 4),
            ("[SMTP Error Code 550]", 5),
            ("a@b.example: 5.1.1 unknown", 5),
            ("-- 4.4.4 Temporary server error", 4),
            ("<<< 250 2.1.5 ok", 2),
            ("<<< 451 wait, then 550 no <<< 250 ok", 2),
        ] {
            assert_eq!(class(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn codes_are_those_beside_a_reply() {
        for (text, code) in [
            ("550 5.1.1 No such user", "5.1.1"),
            ("host said: 550-5.7.1 a 550 5.7.1 b", "5.7.1"),
            ("5.1.2 (550 Nowhere)", "5.1.2"),
            ("Sorry. (#5.1.1)", "5.1.1"),
            ("a@b.example: 5.1.1 unknown", "5.1.1"),
        ] {
            assert_eq!(enhanced_code(text), code.parse().ok(), "{text}");
        }
        for text in ["", "550 No such user", "Exim 4.96.2 says no", "550", "250 2.0.0 ok"] {
            assert_eq!(enhanced_code(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "\\PC{0,80}", digits in "[245(#\\[][0-9. :-]{0,9}\\PC{0,9}") {
            let _ = (class(&line), enhanced_code(&line), class(&digits), enhanced_code(&digits));
        }
    }
}
