//! Checks backups without restoring them.

use std::collections::HashMap;

use super::chunks::Sha;
use super::directory::BackupDir;
use super::manifest::Manifest;
use crate::failure::{Failure, Outcome};

/// Checks every byte of one backup against its checksums; returns its manifest.
///
/// The database was checked when the backup was made. Its bytes are the same, so its structure is.
pub(crate) fn verify(backups: &BackupDir, number: u32) -> Outcome<Manifest> {
    verify_unless_known(backups, number, &mut HashMap::new())
}

/// Checks all backups, and reads each chunk once. Returns their manifests with their numbers.
///
/// # Errors
/// The failure of the newest damaged backup; older ones were not checked.
pub(crate) fn verify_all(backups: &BackupDir) -> Outcome<Vec<(u32, Manifest)>> {
    let mut known = HashMap::new();
    // An error names the newest damaged backup, which matters most.
    let newest_first = backups.numbers()?.into_iter().rev();
    newest_first.map(|number| Ok((number, verify_unless_known(backups, number, &mut known)?))).collect()
}

fn verify_unless_known(backups: &BackupDir, number: u32, known: &mut HashMap<Sha, u64>) -> Outcome<Manifest> {
    let failed = |why: Failure| Failure::new(format!("backup {number}: {why}"));
    let manifest = backups.manifest(number).map_err(failed)?;
    let chunks = backups.chunks();
    for file in manifest.all_files() {
        let mut size: u64 = 0;
        for id in &file.chunks {
            let length = match known.get(id) {
                Some(length) => *length,
                None => chunks.read(*id).map_err(failed)?.len() as u64,
            };
            known.insert(*id, length);
            size += length;
        }
        if size != file.size {
            return Err(failed(Failure::new(format!("{}: the size is wrong", file.path))));
        }
    }
    Ok(manifest)
}
