//! Folding of texts for comparison: texts that look alike become the same bytes.

use std::iter;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::plain;

/// Folds a text for comparison.
///
/// - The result is composed (NFC, Unicode Standard Annex 15) with full case folding, regardless of context: ß
///   becomes ss, a final sigma a sigma, a ligature its letters.
/// - Full-width and half-width characters become the usual ones.
/// - White space becomes one space; line ends stay.
/// - Invisible characters are removed. Accents are significant.
#[must_use]
pub fn fold(text: &str) -> String {
    if differs_in_case_alone(text) { text.to_ascii_lowercase() } else { Folding::of(text, text.len()).folded }
}

/// Folds a text for an index. Indexes drop NUL, so it is replaced.
#[must_use]
pub fn comparable(text: &str) -> String {
    fold(text).replace('\0', "\u{fffd}")
}

/// Returns the byte offset in `line` at which the folded text begins.
pub(super) fn find(line: &str, folded: &str) -> Option<usize> {
    let whole = fold(line);
    let target = whole.find(folded)?;
    // In ASCII, folding only drops characters: equal length means equal positions.
    if line.is_ascii() && whole.len() == line.len() {
        return Some(target);
    }
    let mut folding = Folding::default();
    let letter = |&(_, letter): &(usize, &str)| {
        folding.push(letter);
        folding.folded.len() > target
    };
    letters(line).find(letter).map(|(at, _)| at)
}

/// Returns whether a character starts a letter, which means that it does not compose with the previous one.
pub(super) fn begins_letter(c: char) -> bool {
    match usual_width(c) {
        c if is_unseen(c) => false,
        // Latin, ideographs and Hangul need no Unicode tables.
        ..'\u{300}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => true,
        c => canonical_combining_class(c) == 0 && is_nfc_quick(iter::once(c)) == IsNormalized::Yes,
    }
}

/// Returns the usual form of a full-width or half-width character (Unicode Standard, section 18.4, and Annex
/// 11). Half-width jamo stay, because their usual forms would compose differently.
fn usual_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff9f}' | '\u{ffe0}'..='\u{ffe2}' | '\u{ffe4}'..='\u{ffee}' => {
            iter::once(c).nfkd().next().unwrap_or(c)
        }
        c => c,
    }
}

/// Soft hyphen, zero width space, byte order mark.
const fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{feff}')
}

/// Returns the letters of a text with their offsets: each character together with everything that may compose
/// with it. Letters can be folded one by one.
fn letters(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    iter::from_fn(move || {
        let rest = &text[start..];
        let mut behind = rest.char_indices().skip(1);
        let end = behind.find(|&(_, c)| begins_letter(c)).map_or(rest.len(), |(at, _)| at);
        let letter = (start, &rest[..end]);
        start += end;
        (end > 0).then_some(letter)
    })
}

/// Returns whether only ASCII letters can need folding, as in most texts: no white space but single spaces
/// and line ends. Without an early exit, many bytes are checked at once.
fn differs_in_case_alone(text: &str) -> bool {
    let bytes = text.as_bytes();
    let other_space = bytes.iter().fold(false, |found, byte| found | matches!(byte, b'\t' | 0x0b..=b'\r'));
    text.is_ascii() && !other_space && !plain::has_two_spaces(bytes)
}

/// A text that is folded letter by letter.
#[derive(Default)]
struct Folding {
    folded: String,
    is_behind_space: bool,
}

impl Folding {
    fn of(text: &str, room: usize) -> Self {
        let mut folding = Self { folded: String::with_capacity(room), ..Self::default() };
        letters(text).for_each(|(_, letter)| folding.push(letter));
        folding
    }

    fn push(&mut self, letter: &str) {
        let mut characters = letter.chars();
        let alone = characters.next().filter(|_| characters.as_str().is_empty());
        match alone {
            // Most characters of most texts.
            Some(c @ '!'..='~') => self.push_visible(c.to_ascii_lowercase()),
            Some('\n') => {
                self.folded.push('\n');
                self.is_behind_space = false;
            }
            Some(c) if c.is_whitespace() => self.push_space(),
            c => match c.and_then(simply_folded) {
                Some(folded) => self.push_visible(folded),
                None => self.push_composed(letter),
            },
        }
    }

    /// Folds a letter that needs composition, or becomes several characters.
    fn push_composed(&mut self, letter: &str) {
        let mut decomposed = String::new();
        for c in letter.chars().map(usual_width).nfd().filter(|&c| !is_unseen(c)) {
            match c {
                '\n' => decomposed.push('\n'),
                c if c.is_whitespace() && self.is_behind_space => {}
                c if c.is_whitespace() => decomposed.push(' '),
                // A dotless i stays: its capital I would become a dotted i.
                'ı' => decomposed.push('ı'),
                c => decomposed.extend(fully_folded(c)),
            }
            self.is_behind_space = c != '\n' && c.is_whitespace();
        }
        self.folded.extend(decomposed.nfc());
    }

    fn push_visible(&mut self, c: char) {
        self.folded.push(c);
        self.is_behind_space = false;
    }

    fn push_space(&mut self) {
        if !self.is_behind_space {
            self.folded.push(' ');
        }
        self.is_behind_space = true;
    }
}

/// Full case folding (Unicode Standard, section 3.13): lower, upper, then lower case again.
fn fully_folded(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Like [`fully_folded`], for a letter that stays one character.
fn simply_folded(c: char) -> Option<char> {
    match usual_width(c) {
        '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | 'ı' => Some(c),
        c if !begins_letter(c) => None,
        c => {
            let mut folded = fully_folded(c);
            folded.next().filter(|_| folded.next().is_none())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn character_by_character(text: &str) -> String {
        Folding::of(text, 0).folded
    }

    #[test]
    fn what_people_see_as_other_letters_stays_apart() {
        for (text, wanted) in [("café", "cafe"), ("cafe\u{301}", "cafe"), ("ısı", "isi"), ("x²", "x2"), ("각", "가")]
        {
            assert!(!fold(text).contains(&fold(wanted)), "{text} {wanted}");
        }
    }

    #[test]
    fn case_form_space_and_invisible_characters_do_not_matter() {
        for (text, wanted) in [
            ("ΟΔΟΣ", "οδος"),
            ("Οδός ΟΔΟΣ τέλος", "οδος τ"),
            ("Grüße", "GRÜSSE"),
            ("GRÜẞE", "grüsse"),
            ("GRÜSSE", "Grüße"),
            ("Mu\u{308}ller Cafe\u{301}", "müller café"),
            ("Müller Café", "MU\u{308}LLER CAFE\u{301}"),
            ("\u{fb01}nd", "FIND"),
            ("\u{212b}ngström", "ångstro\u{308}m"),
            ("\u{1112}\u{1161}\u{11ab}글", "한글"),
            ("ᾳ\u{301}", "ά\u{345}"),
            ("İstanbul", "i\u{307}st"),
            ("news\u{ad}paper", "newspaper"),
            ("u\u{ad}\u{308}", "ü"),
            ("a \t b", "a  b"),
            ("Ｍａｉｌ　１２：３０！", "mail 12:30!"),
            ("mail", "ＭＡＩＬ"),
            ("ﾃﾞｰﾀ ﾊﾟﾝ｡", "データ パン。"),
            ("データ", "ﾃﾞｰﾀ"),
            ("￥１００", "¥100"),
        ] {
            assert!(fold(text).contains(&fold(wanted)), "{text} {wanted}");
        }
    }

    #[test]
    fn every_character_is_folded_once_and_in_every_form_alike() {
        for c in ('\0'..='\u{1ffff}').chain('\u{2f800}'..='\u{2fa1f}') {
            let text = c.to_string();
            let folded = fold(&text);
            assert_eq!(fold(&folded), folded, "{c:?}");
            assert_eq!(folded, fold(&text.nfd().collect::<String>()), "{c:?}");
            assert_eq!(folded, fold(&text.nfc().collect::<String>()), "{c:?}");
        }
    }

    /// Letters, marks, and characters with unusual composition.
    fn letters_and_marks() -> impl Strategy<Value = String> {
        let often = "[aeiouAEIJßẞıİΣςᾳΐΆéÜǰŉﬁ각가Ａé！ﾃﾞﾊﾟカ\u{3099}\u{ffa1}\u{1100}\u{1161}\u{11a8}\u{212b}\u{344}\u{958}\u{ad}\u{200b} \n]";
        let marks = "[\u{300}-\u{345}\u{316}\u{59a}\u{653}]";
        let one = prop_oneof![3 => often, 3 => marks, 1 => any::<char>().prop_map(String::from)];
        prop::collection::vec(one, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn ascii_is_folded_as_every_text_is(text in "[ -~\\x00-\\x1f\\x7f]{0,60}") {
            prop_assert_eq!(fold(&text), character_by_character(&text));
        }

        #[test]
        fn the_form_of_a_text_makes_no_difference(text in letters_and_marks()) {
            let (composed, decomposed) = (text.nfc().collect::<String>(), text.nfd().collect::<String>());
            let folded = fold(&text);
            prop_assert_eq!(&fold(&composed), &folded);
            prop_assert_eq!(&fold(&decomposed), &folded);
            prop_assert_eq!(&fold(&folded), &folded, "folded once more");
        }

        #[test]
        fn a_letter_is_found_where_it_begins(before in letters_and_marks(), after in letters_and_marks()) {
            // Without the dot, a mark would change the last letter of the needle.
            let line = format!("{before}needle.{after}");
            let at = find(&line, "needle");
            prop_assert!(at.is_some_and(|at| line[at..].starts_with("needle")), "{:?}", at);
        }
    }
}
