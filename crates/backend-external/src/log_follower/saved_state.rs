//! The saved state: what is needed to understand the lines after a position. The file is replaced as a whole.
//!
//! The state is saved only at positions that the reader of the feed has already stored, so it is never ahead of the
//! database. After a restart, the lines between the two are replayed without reporting their events.

use std::borrow::Cow;
use std::io::{self, BufWriter, Read};
use std::path::Path;

use mailapi_files::OpenDirectory;
use mailapi_model::FeedCursor;
use serde::{Deserialize, Serialize};

use super::place::{Cursor, Place};
use super::report::Notes;
use super::stored::{self, Stored};
use super::tracked_messages::TrackedMessages;

/// A state of another version is not loaded.
const VERSION: u32 = 4;
const FILE: &str = "state";
const NEW_FILE: &str = "state.new";
/// Only root and mailapi's user need the addresses in it.
const FILE_MODE: u32 = 0o600;

/// A saved state.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved<'a> {
    version: u32,
    #[serde(with = "stored")]
    pub(super) place: Place,
    pub(super) tracked: Cow<'a, TrackedMessages>,
    pub(super) notes: Cow<'a, Notes>,
}

impl Stored for Place {
    type Form = String;

    fn form(&self) -> String {
        Cursor::at(self.clone()).encode().0
    }

    fn of_form(form: String) -> Option<Self> {
        Cursor::decode(&FeedCursor(form)).map(|cursor| cursor.place)
    }
}

/// Saves a state durably, and returns its size.
pub(super) fn save(dir: &Path, place: &Place, tracked: &TrackedMessages, notes: &Notes) -> io::Result<u64> {
    let (tracked, notes) = (Cow::Borrowed(tracked), Cow::Borrowed(notes));
    let directory = OpenDirectory::open(dir)?;
    directory.remove_file(NEW_FILE)?;
    let mut file = BufWriter::new(directory.create_file(NEW_FILE, FILE_MODE)?);
    serde_json::to_writer(&mut file, &Saved { version: VERSION, place: place.clone(), tracked, notes })?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Data first, then the rename, then the directory: a crash leaves the old or the new state.
    file.sync_all()?;
    directory.rename(NEW_FILE, &directory, FILE)?;
    directory.sync()?;
    Ok(file.metadata()?.len())
}

/// Loads the saved state; `None` if there is none or it is damaged.
pub(super) fn load(dir: &Path) -> io::Result<Option<Saved<'static>>> {
    match OpenDirectory::open(dir).and_then(|directory| directory.open_file(FILE)) {
        Ok(mut file) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(parse(&bytes))
        }
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn parse(bytes: &[u8]) -> Option<Saved<'static>> {
    let saved = serde_json::from_slice(bytes).ok().filter(|saved: &Saved<'_>| saved.version == VERSION);
    saved.map(|saved| Saved { tracked: Cow::Owned(saved.tracked.into_owned().with_keys()), ..saved })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// Every field of every part, with letter case, null reverse-paths and characters that need escapes.
    const STATE: &str = include_str!("tests/state.json");

    #[test]
    fn a_state_keeps_each_field_as_it_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let Saved { place, tracked, notes, .. } = parse(STATE.as_bytes()).unwrap();
        let size = save(dir.path(), &place, &tracked, &notes).unwrap();
        let saved = fs::read(dir.path().join(FILE)).unwrap();
        assert_eq!(saved.len() as u64, size);
        let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(value(&saved), value(STATE.as_bytes()));
    }

    proptest! {
        #[test]
        fn a_damaged_state_is_a_state_or_none(at in 0..STATE.trim_end().len(), cut in 0..9_usize, put in "\\PC{0,3}") {
            let mut bytes = STATE.as_bytes().to_vec();
            bytes.splice(at..(at + cut).min(STATE.len()), put.into_bytes());
            if let Some(Saved { place, tracked, notes, .. }) = parse(&bytes) {
                let dir = tempfile::tempdir().unwrap();
                save(dir.path(), &place, &tracked, &notes).unwrap();
                prop_assert!(load(dir.path()).unwrap().is_some());
            }
            prop_assert!(parse(&STATE.as_bytes()[..at]).is_none());
        }
    }
}
