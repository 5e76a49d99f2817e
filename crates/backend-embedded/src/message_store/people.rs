//! A list of correspondents as one text column, so that a listing needs neither another table nor the
//! structure.

use mailapi_backend::Correspondent;

/// Terminates a name (ASCII unit separator).
const UNIT: char = '\u{1f}';
/// Terminates an entry (ASCII record separator).
const RECORD: char = '\u{1e}';

pub(crate) fn to_column(people: &[Correspondent]) -> String {
    let mut column = String::new();
    for person in people {
        // A hostile header may contain the separators. Removing them loses nothing visible.
        column.extend(person.name.chars().filter(|c| !is_separator(*c)));
        column.push(UNIT);
        column.extend(person.email.chars().filter(|c| !is_separator(*c)));
        column.push(RECORD);
    }
    column
}

pub(crate) fn from_column(column: &str) -> Vec<Correspondent> {
    let entries = column.split_terminator(RECORD);
    let read = |entry: &str| {
        let (name, email) = entry.split_once(UNIT).unwrap_or(("", entry));
        Correspondent { name: name.to_owned(), email: email.to_owned() }
    };
    entries.map(read).collect()
}

fn is_separator(c: char) -> bool {
    matches!(c, UNIT | RECORD)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn everybody_comes_back(people in prop::collection::vec(("\\PC{0,8}", "\\PC{0,8}"), 0..5)) {
            let people: Vec<_> = people.into_iter().map(|(name, email)| Correspondent { name, email }).collect();
            prop_assert_eq!(from_column(&to_column(&people)), people);
        }

        #[test]
        fn any_column_is_read_without_panic(column in any::<String>()) {
            from_column(&column);
        }
    }
}
