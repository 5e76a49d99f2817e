//! Names of folders in file names: those of Maildir++, with `.` between levels, in modified UTF-7.

use mailapi_imap::{decode_name, encode_name};
use mailapi_model::FolderName;

/// Returns the name of a file for a folder. Dots and slashes inside a level become base64, as do characters outside
/// ASCII.
#[must_use]
pub fn level_name(folder: &FolderName) -> String {
    let levels: Vec<_> = folder.as_str().split('/').map(|level| encode_name(level).replace('.', DOT)).collect();
    levels.join(".")
}

/// The dot in modified UTF-7. Other programs may show it in this form.
const DOT: &str = "&AC4-";

/// Returns the folder of a file name; `None` if no folder can have the name. A name that is not modified UTF-7 is
/// taken as it is.
#[must_use]
pub fn folder_of(file: &str) -> Option<FolderName> {
    let levels: Vec<_> = file.split('.').map(level).collect();
    levels.join("/").parse().ok()
}

fn level(text: &str) -> String {
    // The dot is not in the canonical form of the encoding, so it is decoded here.
    let parts: Option<Vec<_>> = text.split(DOT).map(|part| decode_name(part.as_bytes())).collect();
    parts.map_or_else(|| text.to_owned(), |parts| parts.join("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folder(name: &str) -> FolderName {
        name.parse().unwrap()
    }

    #[test]
    fn names_of_other_programs_are_read() {
        for (file, name) in [
            ("Sent", "Sent"),
            ("Projects.2026", "Projects/2026"),
            ("Entw&APw-rfe", "Entwürfe"),
            ("Entwürfe", "Entwürfe"),
            ("R&D", "R&D"),
            ("v1&AC4-0", "v1.0"),
        ] {
            assert_eq!(folder_of(file), Some(folder(name)), "{file}");
        }
        for impossible in ["", ".", "a..b", "a\0b"] {
            assert_eq!(folder_of(impossible), None, "{impossible}");
        }
    }

    proptest! {
        #[test]
        fn every_folder_has_a_name_without_slashes(name in "[a-zA-Z .&ü/-]{1,12}|(\\PC){1,6}") {
            if let Ok(folder) = name.parse::<FolderName>() {
                let file = level_name(&folder);
                prop_assert!(!file.contains('/') && file.is_ascii());
                prop_assert_eq!(folder_of(&file), Some(folder));
            }
        }
    }
}
