//! Removes old backups.

use std::collections::HashSet;

use super::directory::BackupDir;
use crate::failure::Outcome;

/// Removes all backups but the newest `keep`, and the chunks that no backup needs. Returns the number of removed backups.
pub(crate) fn retain(backups: &BackupDir, keep: Option<u32>) -> Outcome<usize> {
    let numbers = backups.numbers()?;
    let keep = keep.map_or(numbers.len(), |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep));
    // A manifest goes before its chunks: what remains is always complete.
    old.iter().try_for_each(|number| backups.remove_manifest(*number))?;
    let mut used = HashSet::new();
    for number in kept {
        // A damaged manifest may name any chunk, so all must stay.
        let manifest = backups.manifest(*number)?;
        used.extend(manifest.all_files().flat_map(|file| file.chunks.iter().copied()));
    }
    backups.chunks().retain(|id| used.contains(&id))?;
    Ok(old.len())
}
