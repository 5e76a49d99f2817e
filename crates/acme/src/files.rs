//! The account, the certificate and the last failure in the data directory.

use std::io;
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::Entropy;
use mailapi_tls::ServerTls;
use serde::{Deserialize, Serialize};

use crate::renewal;
use crate::{AcmeError, AcmeSettings};

/// Holds the account's key.
const ACCOUNT: &str = "account.json";
/// Holds the certificate's key, the certificate and its chain, so that they are replaced together.
const CERTIFICATE: &str = "certificate.pem";
/// Holds the key of the next certificate.
const NEXT_KEY: &str = "next-key.pem";
/// Holds the SHA-256 of the key before the one in use.
const FORMER_KEY: &str = "former-key.sha256";
const FAILURE: &str = "failure.json";
/// Only the owner may read keys.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Longer files are refused. A certificate with its chain and key has some kilobytes.
const LONGEST_FILE: u64 = 1024 * 1024;

/// The files of one authority.
pub(crate) struct Files {
    data_dir: PathBuf,
    /// The directory of the account in the data directory, which all certificates share.
    directory: PathBuf,
    /// The directory of the certificate within it; empty for that of the listeners.
    certificate: PathBuf,
}

/// A failed order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Number of failures since the last success.
    pub count: u32,
    /// When it failed, in seconds since the Unix epoch.
    pub at: i64,
    /// Seconds from then to the next attempt.
    pub pause: i64,
    /// Why it failed.
    pub reason: String,
}

impl Failure {
    pub(crate) fn new(count: u32, at: i64, reason: String, entropy: &dyn Entropy) -> Self {
        Self { count, at, pause: renewal::pause_after(count, entropy), reason }
    }

    /// The operator may have removed the cause before the start, so the next attempt follows sooner.
    pub(crate) fn after_a_start(self) -> Self {
        Self { pause: self.pause.min(renewal::FIRST_PAUSE), ..self }
    }

    /// Returns when the order is attempted again; at once if the clock was set back.
    #[must_use]
    pub fn next_attempt_at(&self, now: i64) -> i64 {
        if self.at > now { now } else { self.at.saturating_add(self.pause) }
    }
}

impl Files {
    pub(crate) fn of(settings: &AcmeSettings) -> Self {
        let files = Self::new(&settings.data_dir, &settings.directory);
        // The name of a domain has no slash, and no label of it is empty.
        let certificate = settings.domain.as_ref().map(|domain| Path::new("domains").join(domain));
        Self { certificate: certificate.unwrap_or_default(), ..files }
    }

    /// Each authority has a directory of its own: another one must not get the account of the first.
    pub(crate) fn new(data_dir: &Path, directory_url: &str) -> Self {
        let url = directory_url.trim_start_matches("https://");
        let name: String = url.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let directory = Path::new("acme").join(name.trim_matches(['.', '-']));
        Self { data_dir: data_dir.to_owned(), directory, certificate: PathBuf::new() }
    }

    /// Reads the certificate into `tls`, and returns the last failure.
    pub(crate) fn load(&self, tls: &ServerTls) -> Result<Option<Failure>, AcmeError> {
        let failure = self.read(FAILURE)?;
        // A damaged record is like none: the next attempt follows sooner.
        let failure = failure.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(pem) = self.certificate()? {
            tls.replace(&pem, &pem)?;
        }
        Ok(failure)
    }

    pub(crate) fn account(&self) -> Result<Option<AccountCredentials>, AcmeError> {
        let Some(bytes) = self.read(ACCOUNT)? else { return Ok(None) };
        let account = serde_json::from_slice(&bytes);
        account.map(Some).map_err(|error| AcmeError::file(&self.path(ACCOUNT), error))
    }

    pub(crate) fn write_account(&self, account: &AccountCredentials) -> Result<(), AcmeError> {
        self.write_json(ACCOUNT, account)
    }

    pub(crate) fn forget_account(&self) -> Result<(), AcmeError> {
        self.remove(ACCOUNT)
    }

    pub(crate) fn write_certificate(&self, pem: &str) -> Result<(), AcmeError> {
        self.write(CERTIFICATE, pem.as_bytes())
    }

    /// Returns the key, the certificate and its chain.
    pub(crate) fn certificate(&self) -> Result<Option<Vec<u8>>, AcmeError> {
        self.read(CERTIFICATE)
    }

    pub(crate) fn next_key_pem(&self) -> Result<Option<Vec<u8>>, AcmeError> {
        self.read(NEXT_KEY)
    }

    pub(crate) fn write_next_key(&self, pem: &str) -> Result<(), AcmeError> {
        self.write(NEXT_KEY, pem.as_bytes())
    }

    pub(crate) fn former_key(&self) -> Result<Option<[u8; 32]>, AcmeError> {
        Ok(self.read(FORMER_KEY)?.and_then(|bytes| bytes.try_into().ok()))
    }

    pub(crate) fn write_former_key(&self, digest: &[u8; 32]) -> Result<(), AcmeError> {
        self.write(FORMER_KEY, digest)
    }

    pub(crate) fn write_failure(&self, failure: &Failure) -> Result<(), AcmeError> {
        self.write_json(FAILURE, failure)
    }

    pub(crate) fn forget_failure(&self) -> Result<(), AcmeError> {
        self.remove(FAILURE)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, AcmeError> {
        let read = self.opened(name).and_then(|directory| directory.read_limited(name, LONGEST_FILE));
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), AcmeError> {
        let bytes = serde_json::to_vec(value).map_err(|error| AcmeError::file(&self.path(name), error))?;
        self.write(name, &bytes)
    }

    /// Replaces a file at once, and durably.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), AcmeError> {
        let write = || {
            let mut directory = OpenDirectory::open_or_create(&self.data_dir, DIRECTORY_MODE)?;
            for component in &self.place(name) {
                directory = directory.directory_or_create(component, DIRECTORY_MODE)?;
            }
            directory.replace_file(name, bytes, FILE_MODE, None)
        };
        write().map_err(failed)
    }

    /// Returns the directory of a file, relative to the data directory.
    fn place(&self, name: &str) -> PathBuf {
        if name == ACCOUNT { self.directory.clone() } else { self.directory.join(&self.certificate) }
    }

    fn opened(&self, name: &str) -> Result<OpenDirectory, FileError> {
        OpenDirectory::open(&self.data_dir)?.below(&self.place(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data_dir.join(self.place(name)).join(name)
    }

    fn remove(&self, name: &str) -> Result<(), AcmeError> {
        match self.opened(name).and_then(|directory| directory.remove_file(name)) {
            Err(error) if !error.is_missing() => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

fn failed(error: FileError) -> AcmeError {
    match error {
        FileError::Refused { path, refusal } => AcmeError::file(&path, io::Error::other(refusal)),
        FileError::System { path, error } => AcmeError::file(&path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn others_cannot_read_the_keys() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::new(data.path(), "https://ca.example:14000/dir?x=../y");
        let directory = data.path().join("acme/ca.example-14000-dir-x-..-y");
        let path = directory.join(CERTIFICATE);
        files.write_certificate("first").unwrap();
        std::fs::write(directory.join("certificate.pem.new"), "left by a crash").unwrap();
        files.write_certificate("second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&directory)), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn no_link_is_followed() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::new(data.path(), "https://ca.example/dir");
        files.write_certificate("of the server").unwrap();
        let path = files.path(CERTIFICATE);
        std::fs::rename(&path, data.path().join("outside")).unwrap();
        std::os::unix::fs::symlink(data.path().join("outside"), &path).unwrap();
        for refused in [files.read(CERTIFICATE).map(drop), files.write_certificate("x"), files.remove(CERTIFICATE)] {
            let shown = refused.unwrap_err().to_string();
            assert!(shown.contains("is a symbolic link"), "{shown}");
        }
        assert_eq!(std::fs::read_to_string(data.path().join("outside")).unwrap(), "of the server");
    }

    #[test]
    fn a_domain_shares_the_account_alone() {
        let data = tempfile::tempdir().unwrap();
        let of_listeners = Files::new(data.path(), "https://ca.example/dir");
        let of_domain =
            Files { certificate: "domains/example.org".into(), ..Files::new(data.path(), "https://ca.example/dir") };
        assert_eq!(of_listeners.path(ACCOUNT), of_domain.path(ACCOUNT));
        of_listeners.write_certificate("of the listeners").unwrap();
        of_domain.write_certificate("of a domain").unwrap();
        assert_eq!(of_listeners.read(CERTIFICATE).unwrap().unwrap(), b"of the listeners");
        assert_eq!(of_domain.read(CERTIFICATE).unwrap().unwrap(), b"of a domain");
    }

    #[test]
    fn a_failure_ends_with_a_clock_that_was_set_back() {
        let failure = Failure { count: 1, at: 1_000, pause: 300, reason: String::new() };
        assert_eq!([1_000, 1_200, 999].map(|now| failure.next_attempt_at(now)), [1_300, 1_300, 999]);
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_an_error() {
        let (data, tls) = (tempfile::tempdir().unwrap(), ServerTls::empty());
        let files = Files::new(data.path(), "https://ca.example/dir");
        assert_eq!(files.load(&tls).unwrap(), None);
        files.write_certificate("torn").unwrap();
        assert!(matches!(files.load(&tls), Err(AcmeError::Tls(_))));
        assert!(!tls.is_ready());
    }
}
