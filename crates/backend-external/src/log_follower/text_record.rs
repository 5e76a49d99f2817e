//! Lines of tab-separated fields, for the follower's own files. A backslash escapes characters that would end a field
//! or a line.

/// Appends a line of fields.
pub(super) fn push_line(out: &mut String, fields: &[&str]) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push('\t');
        }
        for character in field.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                other => out.push(other),
            }
        }
    }
    out.push('\n');
}

/// Returns the fields of a line.
pub(super) fn fields(line: &str) -> Vec<String> {
    line.split('\t').map(field).collect()
}

fn field(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_come_back_as_they_were(values in proptest::collection::vec("[a-z\\\\\t\n\r \\PC]{0,12}", 1..6)) {
            let mut line = String::new();
            push_line(&mut line, &values.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(fields(line.trim_end_matches('\n')), values);
        }
    }
}
