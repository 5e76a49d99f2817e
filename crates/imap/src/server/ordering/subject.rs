//! The base subject of a message (RFC 5256 section 2.1).

/// A subject without prefixes of replies and forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseSubject {
    /// The base subject, folded for comparisons.
    pub(super) text: String,
    /// Whether something marked a reply or forward.
    pub(super) is_reply: bool,
}

impl BaseSubject {
    pub(super) fn of(subject: &str) -> Self {
        let mut text = subject.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut is_reply = false;
        loop {
            is_reply |= drop_trailers(&mut text);
            is_reply |= drop_leaders(&mut text);
            // `[fwd: ...]` around all of it (step 6).
            match inside_forward(&text) {
                Some(inner) => {
                    text = inner.to_owned();
                    is_reply = true;
                }
                None => break,
            }
        }
        Self { text: super::folded(&text), is_reply }
    }
}

/// Drops each `(fwd)` and space at the end (step 2).
fn drop_trailers(text: &mut String) -> bool {
    let mut found = false;
    loop {
        let trimmed = text.trim_end();
        let before = strip_suffix_ignoring_case(trimmed, "(fwd)").map(str::len);
        let length = before.unwrap_or(trimmed.len());
        text.truncate(length);
        if before.is_none() {
            return found;
        }
        found = true;
    }
}

/// Drops prefixes such as `Re: ` and `[list] ` (steps 3 to 5).
fn drop_leaders(text: &mut String) -> bool {
    let (mut rest, mut found) = (text.trim_start(), false);
    loop {
        if let Some(after) = after_reply(rest) {
            rest = after.trim_start();
            found = true;
        } else if let Some(after) = after_blob(rest).filter(|after| !after.is_empty()) {
            rest = after;
        } else {
            break;
        }
    }
    *text = rest.to_owned();
    found
}

/// The text after `*subj-blob subj-refwd`.
fn after_reply(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(after) = after_blob(rest) {
        rest = after;
    }
    let words = ["re", "fwd", "fw"];
    let after = words.iter().find_map(|word| strip_prefix_ignoring_case(rest, word))?.trim_start();
    after_blob(after).unwrap_or(after).strip_prefix(':')
}

/// The text after one `[...]` and the spaces that follow.
fn after_blob(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let end = inner.find(['[', ']'])?;
    inner[end..].strip_prefix(']').map(str::trim_start)
}

fn inside_forward(text: &str) -> Option<&str> {
    strip_prefix_ignoring_case(text, "[fwd:")?.strip_suffix(']')
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn strip_suffix_ignoring_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let (rest, end) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_replies_and_lists_add_is_dropped() {
        for (subject, base, is_reply) in [
            ("", "", false),
            ("  two \t words ", "TWO WORDS", false),
            ("Re: x", "X", true),
            ("RE : re:Fwd: fw: x", "X", true),
            ("[list] x", "X", false),
            ("[list] Re: [list] x", "X", true),
            ("Re[2]: x", "X", true),
            ("x (fwd) (FWD)", "X", true),
            ("[Fwd: Re: x]", "X", true),
            ("[only]", "[ONLY]", false),
            ("Re: [only]", "[ONLY]", true),
            ("Research", "RESEARCH", false),
            ("[a[b] x", "[A[B] X", false),
            ("Ré: grün", "RÉ: GRÜN", false),
        ] {
            assert_eq!(BaseSubject::of(subject), BaseSubject { text: base.to_owned(), is_reply }, "{subject:?}");
        }
    }

    proptest! {
        #[test]
        fn any_subject_has_a_base(subject in "(re|fwd?|\\[|\\]|:|\\(fwd\\)| |x|é|\\[fwd:){0,30}|\\PC{0,40}") {
            let base = BaseSubject::of(&subject);
            prop_assert!(!base.text.starts_with(' ') && !base.text.ends_with(' '));
        }
    }
}
