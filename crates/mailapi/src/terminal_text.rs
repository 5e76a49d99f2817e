//! Text for a terminal.
//!
//! Names of files and answers of servers come from strangers. A terminal would obey their control characters, and a line
//! break would begin a line that looks like ours.

/// Returns whether a terminal obeys this character instead of showing it: it moves the cursor, ends the line, or turns the
/// direction of the text round.
pub(crate) fn is_command(character: char) -> bool {
    let turns_round = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || turns_round
}

/// Returns the text with such characters as escapes.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_command(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(shown("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(shown("invoice\u{202e}fdp.exe\u{2028}\u{200f}"), "invoice\\u{202e}fdp.exe\\u{2028}\\u{200f}");
        for plain in ["Grüße", "שלום", "a\u{200d}b", "日本"] {
            assert_eq!(shown(plain), plain);
        }
    }
}
