//! Forged header fields: fields of received and submitted mail that only this server may write.

use std::ops::Range;

use mailapi_backend::mime::header_lines;

/// Returns the end of the header, and the header without forged fields; `None` if it has none.
///
/// Final delivery writes Return-Path, so an existing one is removed (RFC 5321 section 4.4). An
/// Authentication-Results field in this server's name would claim checks that this server did not make (RFC
/// 8601 section 5). So would a field with a name in `own`.
pub(crate) fn removed(message: &[u8], hostname: &str, own: &[&str]) -> Option<(usize, Vec<u8>)> {
    let fields = fields(message);
    let is_forged = |field: &Range<usize>| is_forged(&message[field.clone()], hostname, own);
    if !fields.iter().any(is_forged) {
        return None;
    }
    let kept: Vec<_> = fields.iter().filter(|field| !is_forged(field)).map(|field| &message[field.clone()]).collect();
    Some((fields.last()?.end, kept.concat()))
}

/// Returns whether the empty line after the header is present.
pub(crate) fn has_end(message: &[u8]) -> bool {
    fields(message).last().map_or(0, |last| last.end) < message.len()
}

/// Returns the fields with their folded lines, up to the first empty line. Other lines count as fields,
/// because some readers do not end the header there.
fn fields(message: &[u8]) -> Vec<Range<usize>> {
    let mut fields: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in header_lines(message) {
        let end = start + line.len();
        match fields.last_mut() {
            Some(field) if line.starts_with(b" ") || line.starts_with(b"\t") => field.end = end,
            _ => fields.push(start..end),
        }
        start = end;
    }
    fields
}

fn is_forged(field: &[u8], hostname: &str, own: &[&str]) -> bool {
    let Some(colon) = field.iter().position(|byte| *byte == b':') else { return false };
    let (name, value) = (field[..colon].trim_ascii_end(), &field[colon + 1..]);
    let is_own = |own: &&str| name.eq_ignore_ascii_case(own.as_bytes());
    if name.eq_ignore_ascii_case(b"Return-Path") || own.iter().any(is_own) {
        return true;
    }
    name.eq_ignore_ascii_case(b"Authentication-Results") && is_ours(&authserv_id(value), hostname)
}

/// Returns whether a reader may take this name for this server's: the host name or a parent domain.
fn is_ours(name: &str, hostname: &str) -> bool {
    let name = name.trim_end_matches('.');
    let above = hostname.len().checked_sub(name.len()).filter(|_| !name.is_empty());
    let Some((before, end)) = above.and_then(|at| hostname.split_at_checked(at)) else { return false };
    end.eq_ignore_ascii_case(name) && (before.is_empty() || before.ends_with('.'))
}

/// Returns the name at the start of the value, after white space and comments (RFC 8601 section 2.2).
fn authserv_id(value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    let value = without_comments(value.trim_start());
    let quoted = value.strip_prefix('"').map(|rest| {
        let end = rest.find('"').unwrap_or(rest.len());
        rest[..end].replace('\\', "")
    });
    let is_end = |character: char| character.is_whitespace() || matches!(character, ';' | '(' | '/');
    quoted.unwrap_or_else(|| value[..value.find(is_end).unwrap_or(value.len())].to_owned())
}

/// Returns the text after the leading comments, which may be nested (RFC 5322 section 3.2.2).
fn without_comments(text: &str) -> &str {
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if depth > 0 => escaped = true,
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            character if depth == 0 && !character.is_whitespace() => return &text[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(message: &str) -> String {
        let removed = removed(message.as_bytes(), "mx.here.example", &["X-Spam"]);
        let (end, header) = removed.unwrap_or_else(|| (0, Vec::new()));
        String::from_utf8([&header, &message.as_bytes()[end..]].concat()).unwrap()
    }

    #[test]
    fn forged_fields_are_removed_in_any_spelling() {
        for forged in [
            "Return-Path: <boss@here.example>\r\n",
            "rEturn-path :\r\n <boss@here.example>\r\n",
            "Authentication-Results: mx.here.example; spf=pass\r\n",
            "authentication-results :\r\n\t(a (b) \\) c)\r\n MX.here.EXAMPLE. 1; dkim=pass\r\n\theader.d=x\r\n",
            "Authentication-Results: \"mx.here.example\"; none\r\n",
            "Authentication-Results: here.example; none\r\n",
            "x-spam :\r\n\tNo\r\n",
        ] {
            let rest = "Subject: x\r\n\r\nReturn-Path: <in@the.body>\r\n";
            assert_eq!(kept(&format!("{forged}{rest}")), rest, "{forged}");
            let in_between = format!("To: a@b.example\r\n{forged}No field\r\n{forged}{rest}");
            assert_eq!(kept(&in_between), format!("To: a@b.example\r\nNo field\r\n{rest}"), "{forged}");
        }
    }

    #[test]
    fn a_line_of_white_space_does_not_end_the_header() {
        let forged = "Authentication-Results: mx.here.example; dkim=pass\r\n";
        for line in [" \r\n", "\t\r\n", " \t \n", "\x0c\r\n"] {
            let message = format!("Subject: x\r\n{line}{forged}\r\n{forged}");
            assert_eq!(kept(&message), format!("Subject: x\r\n{line}\r\n{forged}"), "{line:?}");
            assert!(!has_end(format!("Subject: x\r\n{line}").as_bytes()), "{line:?}");
        }
        for end in ["\r\n", "\n"] {
            assert!(has_end(format!("Subject: x\r\n{end}").as_bytes()), "{end:?}");
        }
    }

    #[test]
    fn what_others_have_checked_stays() {
        for other in [
            "Authentication-Results: mx.far.example; spf=pass\r\n\r\n",
            "Authentication-Results: notmx.here.example; none\r\n\r\n",
            "Authentication-Results: x; mx.here.example\r\n\r\n",
            "Authentication-Results:\r\n\r\n",
            "X-Spammer: yes\r\nXX-Spam: yes\r\n\r\nX-Spam: in the body\r\n",
            "X-Return-Path: <a@b.example>\r\n\r\nAuthentication-Results: mx.here.example\r\n",
            "",
        ] {
            assert_eq!(removed(other.as_bytes(), "mx.here.example", &["X-Spam"]), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_and_forged_only_once(text in "((Return-Path|Authentication-Results|A)[ :]{1,2}[ -~\\r\\n\"(\\\\é]{0,30}(mx.here.example)?(\r\n){1,2}){0,4}") {
            let once = removed(text.as_bytes(), "mx.here.example", &["A"]);
            if let Some((end, header)) = once {
                prop_assert!(end <= text.len() && header.len() < end);
                let again = [&header, &text.as_bytes()[end..]].concat();
                prop_assert_eq!(removed(&again, "mx.here.example", &["A"]), None);
            }
            let _ = has_end(text.as_bytes());
        }
    }
}
