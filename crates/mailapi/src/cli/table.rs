//! Formatting of lists in columns.

use crate::terminal_text::is_command;

/// The widest column. A longer cell moves the rest of its line. The formatter of the standard library refuses widths of more
/// than 16 bits.
const WIDEST: usize = 1000;

/// Formats rows under a heading; each column is as wide as its widest cell.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0).min(WIDEST)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(heading);
    for row in rows {
        // A name may contain any character that a user typed; a line break in it must not look like another row.
        let clean = row.clone().map(|cell| cell.replace(is_command, " "));
        text.push_str(&line(std::array::from_fn(|column| clean[column].as_str())));
    }
    text
}

/// Formats the fields of one record, one per line.
pub(super) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let value = if value.is_empty() { "-" } else { value };
        format!("{name:<width$}  {}\n", value.replace(is_command, " "))
    };
    fields.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_can_forge_another() {
        let record = [("name", "a\nadmin  yes".to_owned()), ("id", String::new())];
        assert_eq!(fields(&record), "name  a admin  yes\nid    -\n");
    }

    #[test]
    fn columns_line_up_and_no_cell_can_forge_a_row() {
        let rows = [["1".to_owned(), "é\n\u{202e}forged".to_owned()], ["22".to_owned(), String::new()]];
        assert_eq!(table(["ID", "NAME"], &rows), "ID  NAME\n1   é  forged\n22\n");
        let long = "x".repeat(70_000);
        assert!(table(["ID", "NAME"], &[[long.clone(), "a".to_owned()]]).ends_with(&format!("\n{long}  a\n")));
    }
}
