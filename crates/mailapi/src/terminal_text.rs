//! Text for a terminal.
//!
//! Names of files and answers of servers come from strangers. A terminal would obey their control characters, and a line
//! break would begin a line that looks like ours.

/// Returns the text with control characters as escapes.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
