//! Parses RFC 5424 records (section 6) as rsyslog, syslog-ng and FreeBSD's syslogd write them to files: `<22>1
//! TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG`. Some templates omit the priority.

/// The program and the text of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// APP-NAME.
    pub(super) program: &'a str,
    /// PROCID; `None` if missing or not a number.
    pub(super) process: Option<u32>,
    /// MSG.
    pub(super) text: &'a str,
}

/// Returns the text from TIMESTAMP on, if a line without its priority has this form.
pub(super) fn from_time(line: &str) -> Option<&str> {
    line.strip_prefix("1 ")
}

/// Parses the record after its timestamp and the space.
pub(super) fn record(rest: &str) -> Option<Record<'_>> {
    let mut words = rest.splitn(5, ' ');
    let _host = words.next()?;
    let (program, process, _message_type) = (words.next()?, words.next()?, words.next()?);
    let text = behind_structured_data(words.next()?)?;
    // MSG may begin with a byte order mark (section 6.4). rsyslog keeps the space between a traditional tag and its
    // text.
    let text = text.trim_start_matches('\u{feff}').trim_start_matches(' ');
    Some(Record { program, process: process.parse().ok(), text })
}

/// Returns the text after STRUCTURED-DATA: a hyphen, or elements in brackets (section 6.3).
fn behind_structured_data(text: &str) -> Option<&str> {
    let rest = match text.strip_prefix('-') {
        Some(rest) => rest,
        None => {
            let mut rest = text;
            while rest.starts_with('[') {
                rest = &rest[end_of_element(rest)?..];
            }
            if rest.len() == text.len() {
                return None;
            }
            rest
        }
    };
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// Returns the end of an element. Values are in quotes, in which a backslash escapes (section 6.3.3).
fn end_of_element(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_cut_or_has_no_structured_data_is_refused() {
        for rest in
            ["", "mx", "mx postfix/smtp 7 -", "mx postfix/smtp 7 - x text", "mx postfix/smtp 7 - [a b=\"c] text"]
        {
            assert_eq!(record(rest), None, "{rest}");
        }
    }

    #[test]
    fn structured_data_and_a_byte_order_mark_are_no_text() {
        let expected = Some(Record { program: "postfix/smtp", process: Some(7), text: "a: b" });
        for rest in [
            "mx postfix/smtp 7 - - a: b",
            "mx postfix/smtp 7 - -  a: b",
            "mx postfix/smtp 7 ID1 - \u{feff}a: b",
            r#"mx postfix/smtp 7 - [meta sequenceId="1"] a: b"#,
            r#"mx postfix/smtp 7 - [a@1 x="\"] ] \\"][b] a: b"#,
        ] {
            assert_eq!(record(rest), expected, "{rest}");
        }
        assert_eq!(record("mx postfix/smtp - - -").map(|record| (record.process, record.text)), Some((None, "")));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(rest in "\\PC{0,60}|mx a [0-9-]{1,3} - (\\[[a-z\"\\\\\\] ]{0,9}\\]?){0,3}\\PC{0,9}") {
            let _ = record(&rest);
        }
    }
}
