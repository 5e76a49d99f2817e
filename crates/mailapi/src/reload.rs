//! Files that are reloaded while the server runs: the certificate and its key, and secrets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend_embedded::delivery_agent::DeliveryAgentSettings;
use mailapi_backend_embedded::net::Shutdown;
use mailapi_backend_external::ExternalSettings;
use mailapi_model::{SecretText, SharedSecret};
use mailapi_store::Directory;
use mailapi_store::postgres::PostgresUrl;
use mailapi_tls::ServerTls;

use crate::config::{CertificateFiles, Config, ConfigError, TlsMode};
use crate::signals::Hangups;

/// Interval of reloads without a signal. A certificate is renewed weeks before it expires.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Secrets that can be replaced while they are in use. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LiveSecrets(Arc<Mutex<Vec<LiveSecret>>>);

struct LiveSecret {
    key: &'static str,
    used: SharedSecret,
    read: fn(&Config) -> Result<Option<SecretText>, ConfigError>,
}

impl LiveSecrets {
    /// Adds the secrets of the external mail server.
    pub(crate) fn add_external(&self, settings: &ExternalSettings) {
        let external = |config: &Config| config.mail.external.master_password();
        self.add("mail.external.imap.master_password", &settings.imap.master_password, external);
        self.add("mail.external.smtp.password", &settings.smtp.password, |config| config.mail.external.smtp_password());
        if let Some(doveadm) = &settings.doveadm {
            let key = "mail.external.doveadm.api_key";
            self.add(key, &doveadm.api_key, |config| config.mail.external.doveadm_key());
        }
    }

    /// Adds the relay's password.
    pub(crate) fn add_delivery_agent(&self, settings: &DeliveryAgentSettings) {
        if let Some(login) = settings.relay.as_ref().and_then(|relay| relay.credentials.as_ref()) {
            let key = "mail.embedded.relay_password";
            self.add(key, &login.password, |config| config.mail.embedded.relay_password());
        }
    }

    /// Adds the password of the database server.
    pub(crate) fn add_database(&self, url: &PostgresUrl) {
        if let Some(used) = url.password() {
            self.add("database.password", &used, |config| config.database.server_password());
        }
    }

    /// Adds the database password of the external user database.
    pub(crate) fn add_directory(&self, directory: &Directory) {
        if let Some(used) = directory.server_password() {
            let read = |config: &Config| {
                let directory = config.mail.external.users.directory()?;
                Ok(directory.and_then(|directory| directory.server_password()).map(|password| password.get()))
            };
            self.add("mail.external.users.password", &used, read);
        }
    }

    fn add(
        &self,
        key: &'static str,
        used: &SharedSecret,
        read: fn(&Config) -> Result<Option<SecretText>, ConfigError>,
    ) {
        let secret = LiveSecret { key, used: used.clone(), read };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(secret);
    }
}

/// The certificate that the listeners use.
struct Certificates {
    tls: ServerTls,
    shown: Option<CertificateFiles>,
}

impl Certificates {
    /// Reads the files again. Returns whether the certificate or the key changed.
    fn reload_once(&mut self, config: &Config) -> Result<bool, ConfigError> {
        let read = config.certificate_files()?;
        if read == self.shown {
            return Ok(false);
        }
        if let Some(files) = &read {
            files.put_into(&self.tls)?;
        }
        self.shown = read;
        Ok(true)
    }
}

/// All files that are read again.
pub(crate) struct Files {
    certificates: Option<Certificates>,
    secrets: LiveSecrets,
}

/// The result of reading the files again.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reloaded {
    /// The settings whose files changed.
    replaced: Vec<&'static str>,
    /// Unusable files, for instance in the middle of a renewal; the previous contents stay in use.
    failed: Vec<ConfigError>,
}

impl Reloaded {
    fn note(&mut self, key: &'static str, outcome: Result<bool, ConfigError>) {
        match outcome {
            Ok(true) => self.replaced.push(key),
            Ok(false) => {}
            Err(error) => self.failed.push(error),
        }
    }
}

impl Files {
    /// `tls` is the certificate of the listeners. Unless it comes from files, it is not read again here.
    pub(crate) fn new(tls: Option<ServerTls>, secrets: LiveSecrets, config: &Config) -> Self {
        let shown = config.certificate_files().ok().flatten();
        let tls = tls.filter(|_| config.tls.mode() == TlsMode::Files);
        Self { certificates: tls.map(|tls| Certificates { tls, shown }), secrets }
    }

    /// Reads all files again.
    pub(crate) fn reload_once(&mut self, config: &Config) -> Reloaded {
        let mut reloaded = Reloaded::default();
        if let Some(certificates) = &mut self.certificates {
            reloaded.note("tls.cert", certificates.reload_once(config));
        }
        for LiveSecret { key, used, read } in &*self.secrets.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let outcome = read(config).map(|secret| secret.is_some_and(|secret| used.replace(secret)));
            reloaded.note(key, outcome);
        }
        reloaded
    }
}

/// Reads the files at each SIGHUP and at intervals, until shutdown.
pub(crate) async fn keep_fresh(mut files: Files, config: Config, mut hangups: Hangups, mut shutdown: Shutdown) {
    let mut known = Vec::new();
    loop {
        let asked = tokio::select! {
            () = shutdown.requested() => return,
            () = hangups.next() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let Reloaded { replaced, failed } = files.reload_once(&config);
        for setting in replaced {
            tracing::info!(setting, "a file has changed and is in use now");
        }
        // A file that stays unusable is logged once.
        for error in failed.iter().filter(|error| asked || !known.contains(*error)) {
            tracing::error!(%error, "a file cannot be used; its previous content stays in use");
        }
        if asked {
            tracing::info!("SIGHUP: all files were read");
        }
        known = failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a certificate and its key, and returns a configuration with their paths.
    fn files(directory: &std::path::Path) -> Config {
        write(directory);
        let text = format!("[tls]\ncert = \"{0}/cert.pem\"\nkey = \"{0}/key.pem\"\n", directory.display());
        Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap()
    }

    fn write(directory: &std::path::Path) {
        let made = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
        std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn another_certificate_is_shown_and_half_a_renewal_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let config = files(directory.path());
        let tls = config.server_tls().unwrap();
        let mut files = Files::new(tls, LiveSecrets::default(), &config);
        assert_eq!(files.reload_once(&config), Reloaded::default(), "nothing has changed");

        let key = std::fs::read(directory.path().join("key.pem")).unwrap();
        write(directory.path());
        let new_key = std::fs::read(directory.path().join("key.pem")).unwrap();
        std::fs::write(directory.path().join("key.pem"), key).unwrap();
        assert_eq!(files.reload_once(&config).failed.len(), 1, "the new certificate beside the old key");
        std::fs::write(directory.path().join("key.pem"), new_key).unwrap();
        assert_eq!(files.reload_once(&config).replaced, ["tls.cert"]);
        assert_eq!(files.reload_once(&config), Reloaded::default());
        std::fs::remove_file(directory.path().join("cert.pem")).unwrap();
        assert_eq!(files.reload_once(&config).failed.len(), 1);
    }

    #[test]
    fn a_secret_in_a_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "old\n").unwrap();
        let text = format!(
            "[mail.embedded]\nrelay = \"relay.example:587\"\nrelay_user = \"us\"\nrelay_password_file = \"{}\"\n",
            file.display()
        );
        let config = Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap();
        let (settings, secrets) = (config.delivery_agent().unwrap(), LiveSecrets::default());
        secrets.add_delivery_agent(&settings);
        let mut files = Files::new(None, secrets, &config);
        assert_eq!(files.reload_once(&config), Reloaded::default());
        std::fs::write(&file, "new\n").unwrap();
        assert_eq!(files.reload_once(&config).replaced, ["mail.embedded.relay_password"]);
        let used = settings.relay.unwrap().credentials.unwrap().password;
        assert_eq!(used.get().expose(), "new");
        std::fs::write(&file, "").unwrap();
        assert_eq!(files.reload_once(&config).failed.len(), 1);
        assert_eq!(used.get().expose(), "new", "the previous password stays in use");
    }
}
