//! Names of folders in file names: those of Maildir++, with `.` between levels, in modified UTF-7.

use std::collections::HashSet;

use mailapi_imap::{decode_name, encode_name};
use mailapi_model::FolderName;

use crate::SourceKey;

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

/// Returns the names of the directories of a Maildir++ for folders, without the dot before them. Dovecot opens only
/// canonical modified UTF-7, in which a dot always separates levels. A dot inside a level therefore becomes `_`, and the
/// mark of the folder has its name.
#[must_use]
pub fn directory_names(folders: &[FolderName]) -> Vec<String> {
    let is_exact = |folder: &FolderName| !folder.as_str().contains('.') && exact_name(folder).len() <= MAX_DIRECTORY;
    let exact = folders.iter().filter(|folder| is_exact(folder)).map(exact_name);
    let mut taken: HashSet<String> = exact.collect();
    let names = folders.iter().map(|folder| match is_exact(folder) {
        true => exact_name(folder),
        false => changed_name(folder, &mut taken),
    });
    names.collect()
}

/// Maximum length of the name of a directory in bytes: one of 255 with the dot before it.
const MAX_DIRECTORY: usize = 254;

/// Returns the name of a folder in subscriptions and directories if no level has a dot.
fn exact_name(folder: &FolderName) -> String {
    let levels: Vec<_> = folder.as_str().split('/').map(encode_name).collect();
    levels.join(".")
}

fn changed_name(folder: &FolderName, taken: &mut HashSet<String>) -> String {
    let levels: Vec<_> = folder.as_str().split('/').map(|level| encode_name(&level.replace('.', "_"))).collect();
    let mut name = levels.join(".");
    if name.len() > MAX_DIRECTORY {
        let SourceKey(digest) = SourceKey::of(&[b"folder", folder.as_str().as_bytes()]);
        name = format!("folder-{:032x}", u128::from_be_bytes(digest));
    }
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// The beginning of a mark with a name.
const MARK: &str = "X-Mailapi-Folder: ";

/// Returns the mark of a folder whose directory has another name; empty for others, as programs expect it.
pub(crate) fn mark_of(folder: &FolderName, directory: &str) -> String {
    if folder_of(directory).as_ref() == Some(folder) { String::new() } else { format!("{MARK}{folder}\n") }
}

/// Reads the name in the mark of a folder.
pub(crate) fn named_in_mark(mark: &[u8]) -> Option<FolderName> {
    let line = std::str::from_utf8(mark).ok()?.lines().next()?;
    line.strip_prefix(MARK)?.parse().ok()
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

    #[test]
    fn directories_of_a_maildir_have_canonical_names() {
        let names = ["v1.2", "v1_2", "Größe.x/a.b", "Projects/2026", "...", "R&D"];
        let directories = directory_names(&names.map(folder));
        assert_eq!(directories, ["v1_2_", "v1_2", "Gr&APYA3w-e_x.a_b", "Projects.2026", "___", "R&-D"]);
        let long = directory_names(&[folder(&"ü".repeat(127))]);
        assert!(long[0].starts_with("folder-"), "{long:?}");
    }

    proptest! {
        #[test]
        fn every_folder_is_found_again_by_its_directory_and_mark(
            names in proptest::collection::btree_set("[a-c._/ü]{1,6}|ü{100,127}", 0..8),
        ) {
            let folders: Vec<FolderName> = names.iter().filter_map(|name| name.parse().ok()).collect();
            let directories = directory_names(&folders);
            prop_assert_eq!(directories.iter().collect::<HashSet<_>>().len(), folders.len());
            for (folder, directory) in folders.iter().zip(&directories) {
                prop_assert!(directory.len() <= MAX_DIRECTORY && directory.split('.').all(|level| decode_name(level.as_bytes()).is_some()));
                let mark = mark_of(folder, directory);
                let marked = named_in_mark(mark.as_bytes());
                let found = marked.or_else(|| folder_of(directory));
                prop_assert_eq!(found.as_ref(), Some(folder));
            }
        }

        #[test]
        fn any_mark_is_read_without_a_panic(mark in "(X-Mailapi-Folder: )?\\PC{0,9}\n?") {
            let _ = named_in_mark(mark.as_bytes());
        }

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
