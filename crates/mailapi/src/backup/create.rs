//! Makes a backup of a running server.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mailapi_files::OpenDirectory;
use mailapi_model::Timestamp;
use mailapi_store::sqlite::{CopyTarget, check_database};
use sha2::{Digest, Sha256};

use super::chunks::{CHUNK_BYTES, Chunks, Kept, Sha};
use super::contents::{DATABASE_COPY, Source, left_out, text_of};
use super::directory::BackupDir;
use super::manifest::{FileEntry, Manifest};
use super::{about, require_space};
use crate::failure::{Failure, Outcome};

/// A complete backup.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) number: u32,
    pub(crate) manifest: Manifest,
    /// Bytes that no earlier backup had.
    pub(crate) written: u64,
    /// Chunks of earlier backups that were damaged, and are whole again.
    pub(crate) repaired: usize,
}

/// Makes a backup. After a failure, everything that it wrote is removed, and earlier backups are as before.
pub(crate) fn create(to: &BackupDir, source: &Source, now: Timestamp) -> Outcome<Created> {
    if to.path().starts_with(source.data_dir.path()) {
        return Err(about(to.path(), "a backup must be outside the data directory"));
    }
    let mut writing = Writing::begin(to)?;
    let published = writing.save(source, now).and_then(|manifest| {
        let number = to.publish(&manifest, &writing.work)?;
        Ok((number, manifest))
    });
    if published.is_err() {
        writing.discard();
    }
    // The result counts, and the next backup removes the directory.
    let _ = to.end_work();
    let (number, manifest) = published?;
    Ok(Created { number, manifest, written: writing.written, repaired: writing.repaired })
}

/// Whether a large file has hardly any content. To read its holes would take hours, and none of our files is like that.
fn is_sparse(file: &File) -> bool {
    const LARGE: u64 = 64 * 1024 * 1024;
    // The unit of `blocks` (stat(2)).
    const BLOCK: u64 = 512;
    file.metadata().is_ok_and(|found| found.len() >= LARGE && found.blocks() * BLOCK < found.len() / 4)
}

/// A backup that is not complete.
struct Writing<'a> {
    work: OpenDirectory,
    chunks: Chunks<'a>,
    added: Vec<Sha>,
    written: u64,
    repaired: usize,
}

impl<'a> Writing<'a> {
    fn begin(to: &'a BackupDir) -> Outcome<Self> {
        Ok(Self { work: to.begin_work()?, chunks: to.chunks(), added: Vec::new(), written: 0, repaired: 0 })
    }

    fn save(&mut self, source: &Source, now: Timestamp) -> Outcome<Manifest> {
        let database = self.save_database(source)?;
        let mut files = Vec::new();
        for path in source.other_files()? {
            match source.open(&path)? {
                Ok(file) if is_sparse(&file) => {
                    let path = source.data_dir.path().join(&path);
                    tracing::warn!(path = %path.display(), "not in the backup: the file is sparse");
                }
                Ok(file) => files.push(self.save_file(file, &source.data_dir.path().join(&path), text_of(&path)?)?),
                // A file that is replaced or removed at this moment has no content to save.
                Err(error) => left_out(error)?,
            }
        }
        Ok(Manifest::new(now.to_string(), source.accounts, database, files))
    }

    /// Copies the database, checks the copy, and cuts it into chunks.
    ///
    /// SQLite opens the copy by its path, in a directory that only the user of this thread can change.
    fn save_database(&mut self, source: &Source) -> Outcome<FileEntry> {
        let database = source.database.as_path();
        require_space(&self.work, "the copy of the database", source.database_size()?)?;
        let name = DATABASE_COPY[0];
        let copy = self.work.path().join(name);
        let failed = |error| Failure::new(format!("the database {} cannot be copied: {error}", database.display()));
        source.copy_database(CopyTarget::create(&copy).map_err(failed)?)?;
        check_database(&copy).map_err(|error| about(database, error))?;
        let shown = database.file_name().map_or_else(|| database.to_owned(), PathBuf::from);
        let file = self.work.open_file(name)?;
        let file = self.save_file(file, &copy, text_of(&shown)?)?;
        self.work.remove_file(name)?;
        // Users of the database's group keep their access.
        Ok(FileEntry { mode: source.database_mode()?, ..file })
    }

    fn save_file(&mut self, mut open: File, place: &Path, path: String) -> Outcome<FileEntry> {
        let failed = |error: io::Error| about(place, error);
        let mode = open.metadata().map_err(failed)?.permissions().mode() & 0o777;
        let (mut chunks, mut sha, mut size) = (Vec::new(), Sha256::new(), 0);
        loop {
            let mut bytes = Vec::with_capacity(CHUNK_BYTES);
            open.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.is_empty() {
                return Ok(FileEntry { path, mode, size, sha256: Sha(sha.finalize().into()), chunks });
            }
            sha.update(&bytes);
            size += bytes.len() as u64;
            chunks.push(self.save_chunk(&bytes)?);
        }
    }

    fn save_chunk(&mut self, bytes: &[u8]) -> Outcome<Sha> {
        let id = Sha::of(bytes);
        let failed = |error| Failure::new(format!("the backup cannot be written: {error}"));
        match self.chunks.keep(id, bytes, &self.work).map_err(failed)? {
            Kept::There => return Ok(id),
            Kept::Written => self.added.push(id),
            Kept::Repaired => self.repaired += 1,
        }
        self.written += bytes.len() as u64;
        Ok(id)
    }

    /// Removes what no earlier backup has.
    fn discard(&self) {
        for id in &self.added {
            // The next backup removes the rest.
            let _ = self.chunks.remove(*id);
        }
    }
}
