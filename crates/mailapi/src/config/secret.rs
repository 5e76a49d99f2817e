//! Secret settings, which are never shown.

use std::fmt;
use std::path::PathBuf;

use mailapi_model::SecretText;
use serde::{Deserialize, Serialize, Serializer};

use super::ConfigError;
use super::values::Unset;
use crate::named_file;

/// A secret in the configuration itself. `Debug` and serialization show only whether it is set.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretSetting(String);

impl SecretSetting {
    /// Returns whether the configuration itself contains the secret.
    pub(super) const fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// Replaces a secret in the output of `config print`.
    const REDACTED: &'static str = "(redacted)";

    /// Returns the secret, from the setting `key` or from the file that `{key}_file` names; `None` when both are
    /// empty. A line break at the end of the file is not part of the secret.
    pub(super) fn resolve(&self, key: &str, file: &SecretFile) -> Result<Option<SecretText>, ConfigError> {
        let Some(FilePath(path)) = &file.0 else {
            return Ok((!self.0.is_empty()).then(|| SecretText::new(self.0.clone())));
        };
        if !self.0.is_empty() {
            return Err(ConfigError::new(format!("both {key} and {key}_file are set; keep one of them")));
        }
        let text = named_file::read_text(path)
            .map_err(|error| ConfigError::new(format!("{key}_file: {} cannot be read: {error}", path.display())))?;
        let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        if text.is_empty() {
            return Err(ConfigError::new(format!("{key}_file: {} is empty", path.display())));
        }
        Ok(Some(SecretText::new(text.to_owned())))
    }
}

impl fmt::Debug for SecretSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "SecretSetting(unset)" } else { "SecretSetting(…)" })
    }
}

impl Serialize for SecretSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { Self::REDACTED })
    }
}

/// Path of a secret's file.
pub(crate) type SecretFile = Unset<FilePath>;

/// A path whose text form is the path itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl std::str::FromStr for FilePath {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(PathBuf::from(text)))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(content: &str) -> (tempfile::NamedTempFile, SecretFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let path = FilePath(file.path().to_owned());
        (file, Unset(Some(path)))
    }

    #[test]
    fn a_secret_given_twice_missing_or_empty_is_refused() {
        let (_kept, file) = in_file("hunter22\n");
        let both = SecretSetting("hunter21".to_owned()).resolve("database.url", &file).unwrap_err().to_string();
        assert_eq!(both, "both database.url and database.url_file are set; keep one of them");
        let missing = Unset(Some(FilePath("does/not/exist".into())));
        assert!(SecretSetting::default().resolve("database.url", &missing).is_err());
        let (_kept, empty) = in_file("\n");
        assert!(SecretSetting::default().resolve("database.url", &empty).is_err());
    }

    #[test]
    fn a_secret_is_read_from_its_file_and_never_shown() {
        let (_kept, file) = in_file("hunter22\n");
        let secret = SecretSetting::default().resolve("database.url", &file).unwrap().unwrap();
        assert_eq!(secret.expose(), "hunter22");
        let setting = SecretSetting("hunter22".to_owned());
        assert_eq!(format!("{setting:?}"), "SecretSetting(…)");
        assert_eq!(toml::Value::try_from(&setting).unwrap().as_str(), Some("(redacted)"));
    }
}
