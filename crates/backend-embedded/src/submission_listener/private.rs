//! Private header fields of a submitted message.

/// Bcc must not reveal hidden recipients (RFC 5322 section 3.6.3).
const PRIVATE: [&[u8]; 2] = [b"bcc", b"resent-bcc"];

/// Returns a header block without those fields and their folded lines.
pub(super) fn strip(block: &[u8]) -> Vec<u8> {
    let mut drops = false;
    let mut kept = Vec::with_capacity(block.len());
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            drops = is_private(line);
        }
        if !drops {
            kept.extend_from_slice(line);
        }
    }
    kept
}

fn is_private(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii_end();
    PRIVATE.iter().any(|private| name.eq_ignore_ascii_case(private))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::header::block;
    use super::*;

    fn stripped(message: &str) -> String {
        let (header, rest) = message.as_bytes().split_at(block(message.as_bytes()).len());
        String::from_utf8([&strip(header), rest].concat()).unwrap()
    }

    #[test]
    fn every_private_field_goes_with_all_of_its_lines() {
        let message = "Bcc: boss@here.example,\r\n\thr@here.example\r\nFrom: a@b.example\r\n\
                       bCC : x@y.example\r\nResent-Bcc: z@y.example\r\n\r\nBcc: text\r\n";
        assert_eq!(stripped(message), "From: a@b.example\r\n\r\nBcc: text\r\n");
        assert_eq!(stripped("Bcc: x@y.example\r\n\r\nhello\r\n"), "\r\nhello\r\n");
    }

    #[test]
    fn all_others_stay_as_they_are() {
        for message in ["", "hello\r\n", "\r\nBcc: text\r\n", "X-Bcc: 1\r\nTo: x@y.example\r\n Bcc: z\r\n\r\n"] {
            assert_eq!(stripped(message), message);
        }
    }

    proptest! {
        #[test]
        fn any_message_is_stripped_without_panic_and_only_once(message in prop::collection::vec(any::<u8>(), 0..200), text in "((B|b)cc ?:[ -~]{0,9}\r\n[ \t]?){0,5}") {
            for message in [message, text.into_bytes()] {
                let once = strip(block(&message));
                prop_assert_eq!(strip(&once), once);
            }
        }
    }
}
