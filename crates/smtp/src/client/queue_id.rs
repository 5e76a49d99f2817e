//! The queue id in the reply to a message.

use crate::reply::Reply;

/// Extracts the id from `… queued as XXXX`. Postfix writes it in its short (hexadecimal) and long form, and
/// so does our own server. Returns `None` if the reply contains no such id.
pub fn queue_id_in(reply: &Reply) -> Option<&str> {
    const MARK: &str = "queued as ";
    let text = reply.text.as_str();
    let at = text.as_bytes().windows(MARK.len()).position(|window| window.eq_ignore_ascii_case(MARK.as_bytes()))?;
    let rest = &text[at + MARK.len()..];
    let end = rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '-').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ids_are_found() {
        for (text, id) in [
            ("Ok: queued as C91219F88D8", Some("C91219F88D8")),
            ("Ok: queued as 4Zyx7Q2bBzz3Q", Some("4Zyx7Q2bBzz3Q")),
            ("from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: Queued as 3FZ9k.", Some("3FZ9k")),
            ("first\nqueued as A1 (x)", Some("A1")),
            ("Ok: queued as ", None),
            ("Ok", None),
            ("é queued a", None),
        ] {
            assert_eq!(queue_id_in(&Reply::new(250, (2, 0, 0), text)), id, "{text}");
        }
    }
}
