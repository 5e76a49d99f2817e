//! `[dns]`: name servers for lookups.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use mailapi_dns::{DnsSettings, RootKeys};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::secret::FilePath;
use super::values::Text;
use super::{ConfigError, read_file};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Dns {
    servers: Vec<Text<SocketAddr>>,
    dnssec: Dnssec,
}

/// Whether signatures are verified, and with which keys of the root.
#[derive(Debug, Clone, PartialEq)]
enum Dnssec {
    Off,
    /// With the keys that IANA publishes.
    On,
    /// With the keys of a file.
    Keys(FilePath),
}

impl Default for Dns {
    fn default() -> Self {
        Self { servers: Vec::new(), dnssec: Dnssec::from(DnsSettings::default().dnssec) }
    }
}

impl Dns {
    /// Returns the settings of DNS lookups; reads the keys of the root if a file has them.
    pub(super) fn settings(&self) -> Result<DnsSettings, ConfigError> {
        let servers = self.servers.iter().map(|Text(server)| *server).collect();
        let dnssec = self.dnssec != Dnssec::Off;
        Ok(DnsSettings { servers, dnssec, root_keys: self.dnssec.keys()?, ..DnsSettings::default() })
    }
}

impl Dnssec {
    fn keys(&self) -> Result<Option<RootKeys>, ConfigError> {
        let Self::Keys(path) = self else { return Ok(None) };
        let bytes = read_file("dns.dnssec", path)
            .map_err(|error| ConfigError::new(format!("{error}; write true, false or the path of a file")))?;
        let wrong = |why: &dyn fmt::Display| ConfigError::new(format!("dns.dnssec: {}: {why}", path.0.display()));
        let text = std::str::from_utf8(&bytes).map_err(|error| wrong(&error))?;
        text.parse().map(Some).map_err(|error| wrong(&error))
    }
}

impl From<bool> for Dnssec {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

impl<'de> Deserialize<'de> for Dnssec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Dnssec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or the path of a file")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Dnssec, E> {
                Ok(is_on.into())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dnssec, E> {
                if text.is_empty() {
                    return Err(E::invalid_value(de::Unexpected::Str(text), &self));
                }
                // A variable of the environment is text.
                Ok(text.parse::<bool>().map_or_else(|_| Dnssec::Keys(FilePath(PathBuf::from(text))), Dnssec::from))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Dnssec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::On => serializer.serialize_bool(true),
            Self::Keys(path) => serializer.collect_str(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const KEY: &str = ". IN DNSKEY 257 3 13 \
                       mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\n";

    fn from_file(value: &str) -> Config {
        Config::from_layers(Some(("mailapi.toml", &format!("dns.dnssec = {value}\n"))), &[]).unwrap()
    }

    fn from_environment(value: &str) -> Result<Config, String> {
        Config::from_layers(None, &[("MAILAPI_DNS__DNSSEC".into(), value.into())]).map_err(|error| error.to_string())
    }

    fn refused(config: &Config) -> String {
        let error = config.check_files().unwrap_err().to_string();
        assert_eq!(config.dns().unwrap_err().to_string(), error);
        error
    }

    #[test]
    fn a_file_without_keys_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let missing = refused(&from_environment("no").unwrap());
        assert!(missing.starts_with("dns.dnssec: no cannot be read: "), "{missing}");
        assert!(missing.ends_with("; write true, false or the path of a file"), "{missing}");
        let unreadable = refused(&from_environment(&path("")).unwrap());
        assert!(unreadable.contains(" cannot be read: "), "{unreadable}");
        for (content, why) in [
            (&b""[..], "cannot read the keys of the root zone: there is no DNSKEY record of the root zone"),
            (b"; none yet\n", "cannot read the keys of the root zone: there is no DNSKEY record of the root zone"),
            (b"trust-anchors { };\n", "cannot read the keys of the root zone: "),
            (b"\xff\xfe\n", "invalid utf-8 sequence"),
        ] {
            std::fs::write(path("root.key"), content).unwrap();
            let error = refused(&from_environment(&path("root.key")).unwrap());
            assert!(error.starts_with(&format!("dns.dnssec: {}: {why}", path("root.key"))), "{error}");
        }
    }

    #[test]
    fn a_value_that_is_neither_is_refused() {
        assert_eq!(
            from_environment("").unwrap_err(),
            "environment variable MAILAPI_DNS__DNSSEC: must be true, false or the path of a file, not string \"\"; the \
             default is true"
        );
        let number = Config::from_layers(Some(("mailapi.toml", "dns.dnssec = 1\n")), &[]).unwrap_err().to_string();
        assert!(
            number
                .starts_with("mailapi.toml:1: dns.dnssec: must be true, false or the path of a file, not integer `1`"),
            "{number}"
        );
    }

    #[test]
    fn signatures_are_verified_with_the_keys_of_iana_or_of_a_file() {
        let shown = |config: &Config| {
            let settings = config.dns().unwrap();
            (settings.dnssec, settings.root_keys.map(|keys| format!("{keys:?}")))
        };
        for (text, is_on) in [("true", true), ("false", false)] {
            for config in [from_file(text), from_file(&format!("\"{text}\"")), from_environment(text).unwrap()] {
                assert_eq!(shown(&config), (is_on, None));
                assert!(config.to_toml().contains(&format!("\ndnssec = {text}\n")));
            }
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), KEY).unwrap();
        let path = file.path().display().to_string();
        for config in [from_file(&format!("\"{path}\"")), from_environment(&path).unwrap()] {
            assert_eq!(shown(&config), (true, Some("RootKeys(1)".to_owned())));
            config.check_files().unwrap();
            let printed = config.to_toml();
            assert!(printed.contains(&format!("\ndnssec = \"{path}\"\n")), "{printed}");
            assert_eq!(shown(&Config::from_layers(Some(("printed", &printed)), &[]).unwrap()), shown(&config));
        }
    }
}
