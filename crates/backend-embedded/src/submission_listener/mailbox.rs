//! The grammar of one author (RFC 5322 section 3.4, RFC 6532 section 3.2).
//!
//! A signed From must have the same meaning for every reader, so invalid input is refused and never repaired.
//! The only obsolete syntax accepted is a dot in a display name: `John Q. Public <john@here.example>` is
//! unambiguous.

use mailapi_model::EmailAddress;

/// Returns the address in an unfolded field value; `None` unless it is exactly one mailbox.
pub(super) fn mailbox(value: &str) -> Option<EmailAddress> {
    let mut rest = Rest(value);
    rest.skip_cfws()?;
    // A bare address is tried first, since its local part also parses as a display name.
    if let Some(address) = Rest(rest.0).bare_address() {
        return Some(address);
    }
    while rest.word().is_some() {
        rest.skip_cfws()?;
    }
    let inside = rest.0.strip_prefix('<')?;
    let mut rest = Rest(inside.trim_start_matches(WHITE));
    let address = rest.address()?;
    rest.0 = rest.0.trim_start_matches(WHITE).strip_prefix('>')?;
    rest.ends_here().then_some(address)
}

/// White space that remains after unfolding.
const WHITE: [char; 2] = [' ', '\t'];

/// The unparsed rest of the value.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Parses an addr-spec at the end of the value.
    fn bare_address(mut self) -> Option<EmailAddress> {
        let address = self.address()?;
        self.ends_here().then_some(address)
    }

    fn ends_here(mut self) -> bool {
        self.skip_cfws().is_some() && self.0.is_empty()
    }

    /// Parses local-part "@" domain, without the white space and comments that the grammar allows around
    /// both.
    fn address(&mut self) -> Option<EmailAddress> {
        let all = self.0;
        if self.0.starts_with('"') {
            self.quoted()?;
        } else {
            self.take_while(|c| is_atext(c) || c == '.')?;
        }
        self.0 = self.0.strip_prefix('@')?;
        self.take_while(|c| is_atext(c) || c == '.')?;
        EmailAddress::as_given(&all[..all.len() - self.0.len()]).ok()
    }

    /// Skips a word of a display name, or a dot.
    fn word(&mut self) -> Option<()> {
        if self.0.starts_with('"') { self.quoted() } else { self.take_while(|c| is_atext(c) || c == '.') }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> Option<()> {
        let rest = self.0.trim_start_matches(is_part);
        let has_any = rest.len() < self.0.len();
        self.0 = rest;
        has_any.then_some(())
    }

    fn quoted(&mut self) -> Option<()> {
        let mut chars = self.0.strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => is_text(chars.next()?).then_some(())?,
                c => is_text(c).then_some(())?,
            }
        }
        self.0 = chars.as_str();
        Some(())
    }

    /// Skips white space and nested comments. Returns `None` if a comment does not end.
    fn skip_cfws(&mut self) -> Option<()> {
        loop {
            self.0 = self.0.trim_start_matches(WHITE);
            if !self.0.starts_with('(') {
                return Some(());
            }
            let mut chars = self.0.chars();
            let mut depth = 0_usize;
            loop {
                match chars.next()? {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    '\\' => is_text(chars.next()?).then_some(())?,
                    c => is_text(c).then_some(())?,
                }
                if depth == 0 {
                    break;
                }
            }
            self.0 = chars.as_str();
        }
    }
}

fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && is_text(c))
}

/// Returns whether a character is allowed in quotes and comments.
fn is_text(c: char) -> bool {
    c == '\t' || !c.is_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_readers_could_take_for_another_author_is_refused() {
        for value in [
            "",
            "ann",
            "<>",
            "bob@a.test <ann@a.test",
            "bob@a.test <ann@a.test>",
            "bob@a.test:;, ann@a.test",
            "Team: ann@a.test;",
            "ann@a.test, bob@a.test",
            "ann@a.test,",
            "ann@a.test bob@a.test",
            "ann@a.test>",
            "<ann@a.test> bob@a.test",
            "<bob@a.test> <ann@a.test>",
            "Bob <bob@a.test> <ann@a.test>",
            "<@a.test:ann@a.test>",
            "<<ann@a.test>>",
            "\"Bob\" bob@a.test",
            "\"Bob <ann@a.test>",
            "Bob (bob@a.test <ann@a.test>",
            "Bob) <ann@a.test>",
            "ann@a.test (one",
            "ann@a.test\\",
            "ann@[192.0.2.1]",
            "ann\u{0}@a.test",
            "Lee, Ann <ann@a.test>",
            "Ann\r <ann@a.test>",
        ] {
            assert_eq!(mailbox(value), None, "{value:?}");
        }
    }

    #[test]
    fn one_author_is_read_however_it_is_written() {
        for (value, address) in [
            ("ann@a.test", "ann@a.test"),
            (" Ann Lee\t<Ann@A.test> ", "ann@a.test"),
            ("<ann@a.test>", "ann@a.test"),
            ("Ann < ann@a.test >", "ann@a.test"),
            ("John Q. Public <ann@a.test>", "ann@a.test"),
            ("\"Lee, Ann <bob@a.test>\" <ann@a.test>", "ann@a.test"),
            ("\"a\\\"b\" <ann@a.test> (the (real) one)", "ann@a.test"),
            ("(first) ann@a.test (Ann \\) Lee)", "ann@a.test"),
            ("=?utf-8?Q?Ann=2C_Lee?= <ann@a.test>", "ann@a.test"),
            ("Jürgen <jürgen@bücher.test>", "jürgen@bücher.test"),
            ("\"ann lee\"@a.test", "\"ann lee\"@a.test"),
        ] {
            assert_eq!(mailbox(value), address.parse().ok(), "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_panic(text in any::<String>(), value in "([<>@,;:\"\\\\() .=?a-cé]|ann@a\\.test){0,20}") {
            let _ = mailbox(&text);
            if let Some(address) = mailbox(&value) {
                let bare = value.replace("\\ ", "");
                prop_assert!(address.domain_str() != "" && bare.contains('@'));
            }
        }
    }
}
