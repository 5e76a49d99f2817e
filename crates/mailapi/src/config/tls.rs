//! `[tls]`: the certificate of the listeners.

use std::fmt;
use std::str::FromStr;

use mailapi_service::is_local_name;
use mailapi_tls::{ServerTls, TlsError};
use serde::{Deserialize, Serialize};

use super::secret::FilePath;
use super::values::Unset;
use super::{ConfigError, read_file};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    mode: Unset<TlsMode>,
    cert: Unset<FilePath>,
    key: Unset<FilePath>,
    acme_directory: String,
}

/// Where the certificate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// There is none.
    Off,
    /// Files that another program renews.
    Files,
    /// An authority that issues certificates by ACME (RFC 8555).
    Acme,
}

const MODES: [(TlsMode, &str); 3] = [(TlsMode::Off, "off"), (TlsMode::Files, "files"), (TlsMode::Acme, "acme")];

impl FromStr for TlsMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = MODES.into_iter().find(|(_, name)| *name == text);
        found.map(|(mode, _)| mode).ok_or("must be \"off\", \"files\" or \"acme\"")
    }
}

impl fmt::Display for TlsMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(MODES.into_iter().find(|(mode, _)| mode == self).map_or("", |(_, name)| name))
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            mode: Unset(None),
            cert: Unset(None),
            key: Unset(None),
            acme_directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
        }
    }
}

/// The contents of two PEM files. They are compared to detect changes, and never logged.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Replaces the listeners' certificate.
    pub(crate) fn put_into(&self, tls: &ServerTls) -> Result<(), ConfigError> {
        tls.replace(&self.certificates, &self.key).map_err(bad_certificate)
    }
}

fn bad_certificate(error: TlsError) -> ConfigError {
    ConfigError::new(format!("tls.cert and tls.key: {error}"))
}

impl Tls {
    /// Returns where the certificate comes from. Without a mode, files are used if they are set.
    pub(crate) fn mode(&self) -> TlsMode {
        self.mode.0.unwrap_or(if self.cert.0.is_some() { TlsMode::Files } else { TlsMode::Off })
    }

    /// Returns whether the listeners offer TLS, as soon as there is a certificate.
    pub(super) fn is_on(&self) -> bool {
        self.mode() != TlsMode::Off
    }

    /// Returns the URL of the authority.
    pub(super) fn directory(&self) -> &str {
        &self.acme_directory
    }

    /// Reads the certificate and the key from their files, if they are in use.
    pub(super) fn files(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        let (TlsMode::Files, Some(certificate), Some(key)) = (self.mode(), &self.cert.0, &self.key.0) else {
            return Ok(None);
        };
        let certificates = read_file("tls.cert", certificate)?;
        Ok(Some(CertificateFiles { certificates, key: read_file("tls.key", key)? }))
    }

    /// Returns the certificate of the listeners: from the files, or none yet with ACME.
    pub(super) fn server(&self) -> Result<Option<ServerTls>, ConfigError> {
        if !self.is_on() {
            return Ok(None);
        }
        let tls = ServerTls::empty();
        if let Some(files) = self.files()? {
            files.put_into(&tls)?;
        }
        Ok(Some(tls))
    }

    /// Rejects contradictions. `names` are those of this server, `listeners` those that need TLS.
    pub(super) fn check(&self, names: &[String], listeners: &[(&str, bool)]) -> Result<(), ConfigError> {
        if self.cert.0.is_some() != self.key.0.is_some() {
            return Err(ConfigError::new("tls.cert and tls.key: set both or none"));
        }
        match self.mode() {
            TlsMode::Off => {
                let listens = listeners.iter().find(|(_, listens)| *listens);
                let wrong = |(key, _)| ConfigError::new(format!("{key}: needs a certificate; set tls.mode"));
                listens.map_or(Ok(()), |listener| Err(wrong(*listener)))
            }
            TlsMode::Files if self.cert.0.is_none() => Err(ConfigError::new("tls.cert and tls.key: missing")),
            TlsMode::Files => Ok(()),
            TlsMode::Acme => self.check_acme(names),
        }
    }

    fn check_acme(&self, names: &[String]) -> Result<(), ConfigError> {
        if self.cert.0.is_some() {
            return Err(ConfigError::new("tls.cert: remove it, or set tls.mode to \"files\""));
        }
        if !self.acme_directory.starts_with("https://") {
            return Err(ConfigError::new("tls.acme_directory: must begin with https://"));
        }
        let local = names.iter().find(|name| is_local_name(name));
        let wrong =
            |name| format!("tls.mode: no authority issues a certificate for `{name}`; set mail.embedded.hostname");
        match local {
            Some(name) => Err(ConfigError::new(wrong(name))),
            None if names.is_empty() => Err(ConfigError::new("http.public_url: set it to the URL of the certificate")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn check(text: &str) -> Result<(), String> {
        let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
        config.check().map_err(|error| error.to_string())
    }

    #[test]
    fn contradictions_are_refused() {
        let host = "mail.embedded.hostname = \"mx.example.org\"\n";
        for (text, why) in [
            ("tls.cert = \"a.pem\"", "tls.cert and tls.key: set both or none"),
            ("tls.mode = \"files\"", "tls.cert and tls.key: missing"),
            (
                "tls.mode = \"acme\"\ntls.cert = \"a\"\ntls.key = \"b\"",
                "tls.cert: remove it, or set tls.mode to \"files\"",
            ),
            ("tls.mode = \"acme\"\ntls.acme_directory = \"http://ca\"", "tls.acme_directory: must begin with https://"),
            ("http.tls_listen = \"0.0.0.0:443\"", "http.tls_listen: needs a certificate; set tls.mode"),
            (
                "mail.embedded.imaps_listen = \"[::]:993\"",
                "mail.embedded.imaps_listen: needs a certificate; set tls.mode",
            ),
            (
                "tls.mode = \"off\"\ntls.cert = \"a\"\ntls.key = \"b\"\nmail.embedded.submissions_listen = \"[::]:465\"",
                "mail.embedded.submissions_listen: needs a certificate; set tls.mode",
            ),
            (
                "mail.backend = \"external\"\nmail.external.imap.master_password = \"x\"\ntls.mode = \"acme\"",
                "http.public_url: set it to the URL of the certificate",
            ),
        ] {
            assert_eq!(check(&format!("{host}{text}\n")), Err(why.to_owned()), "{text}");
        }
        assert!(check("tls.mode = \"acme\"\n").unwrap_err().contains("`localhost`"));
        assert_eq!(check(&format!("{host}tls.mode = \"acme\"\nhttp.tls_listen = \"[::]:443\"\n")), Ok(()));
        let wrong = Config::from_layers(Some(("mailapi.toml", "tls.mode = \"on\"\n")), &[]).unwrap_err();
        assert!(wrong.to_string().contains("must be \"off\", \"files\" or \"acme\""), "{wrong}");
    }

    #[test]
    fn files_are_used_also_without_a_mode() {
        let mode = |text: &str| {
            let text = format!("{text}\ntls.cert = \"a\"\ntls.key = \"b\"\n");
            Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().tls.mode().to_string()
        };
        assert_eq!([mode(""), mode("tls.mode = \"files\""), mode("tls.mode = \"off\"")], ["files", "files", "off"]);
    }

    #[test]
    fn a_certificate_is_for_the_mail_server_and_the_url() {
        let names = |text: &str| {
            let text = format!("mail.embedded.hostname = \"mx.example.org\"\n{text}\n");
            Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().certificate_names()
        };
        let url = "http.public_url = \"https://API.example.org:8443/mail\"\n";
        let https = "http.tls_listen = \"[::]:443\"\n";
        assert_eq!(names(""), ["mx.example.org"]);
        assert_eq!(names(url), ["mx.example.org"], "a proxy has the certificate of the URL");
        assert_eq!(names(&format!("{url}{https}")), ["mx.example.org", "api.example.org"]);
        assert_eq!(names(&format!("http.public_url = \"https://mx.example.org\"\n{https}")), ["mx.example.org"]);
        assert_eq!(names(&format!("http.public_url = \"https://192.0.2.1\"\n{https}")), ["mx.example.org"]);
        assert_eq!(names(&format!("mail.backend = \"external\"\n{url}{https}")), ["api.example.org"]);
    }
}
