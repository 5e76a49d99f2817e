//! Orders the certificate of the listeners from an authority and renews it in time (ACME, RFC 8555).
//!
//! [`Acme::step`] does what is due and returns when to call it again. The account and the certificate are files in the
//! data directory. The authority checks each name by a record in DNS, if the host of the program can publish it
//! ([`ChallengeRecords`]), or at this server: by a TLS handshake (RFC 8737), or by a request for a file. The listeners answer
//! both from [`mailapi_tls::Challenges`].

mod challenge_records;
mod connections;
mod error;
mod files;
mod key_records;
mod order;
mod renewal;
mod server_key;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{Account, CertificateIdentifier, ChallengeType, NewAccount};
use mailapi_model::{Clock, Entropy, KeyDigests};
use mailapi_tls::{ServerTls, TlsError, Trust, client_config};
use rustls_pki_types::Der;

pub use challenge_records::ChallengeRecords;
use connections::Connections;
pub use error::AcmeError;
pub use files::Failure;
use files::Files;
pub use key_records::KeyRecords;
use order::Answers;
use renewal::Suggestion;
use server_key::{NextKey, ServerKey};

/// Settings of the orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// URL of the authority's directory.
    pub directory: String,
    /// Names that the certificate is for.
    pub names: Vec<String>,
    /// The mail domain whose pages the certificate is for; `None` for that of the listeners. Each domain has a certificate
    /// of its own, so that one whose names cannot be checked holds back no other.
    pub domain: Option<String>,
    /// Directory of all durable state.
    pub data_dir: PathBuf,
    /// Whether a listener of HTTPS can answer challenges.
    pub has_https: bool,
    /// Which certificates of the authority itself are accepted.
    pub trust: Trust,
}

/// Returns the digests of the keys of an earlier order, and of the next one; `None` while one of them is missing.
///
/// # Errors
/// If the files cannot be read.
pub fn key_digests(settings: &AcmeSettings) -> Result<Option<KeyDigests>, AcmeError> {
    server_key::digests(&Files::of(settings))
}

/// Keeps the certificate of the listeners.
pub struct Acme {
    settings: AcmeSettings,
    files: Files,
    tls: ServerTls,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    records: Option<Arc<dyn ChallengeRecords>>,
    /// The records of the keys; `None` if no others know them, and each certificate has a key of its own.
    key_records: Option<Arc<dyn KeyRecords>>,
    next_key: NextKey,
    failure: Option<Failure>,
    /// What the authority advises about the certificate in use.
    suggestion: Option<Suggestion>,
    /// When the last order succeeded, in seconds since the Unix epoch.
    ordered_at: Option<i64>,
    /// Whether an early end of the certificate in use was logged.
    early_is_logged: bool,
    /// A certificate in use that could not be stored yet.
    unstored: Option<String>,
}

/// Reads the certificate of an earlier order into `tls`. Returns the last failure, if the order after it failed.
///
/// # Errors
/// If the files cannot be read, or the certificate cannot be used.
pub fn load(settings: &AcmeSettings, tls: &ServerTls) -> Result<Option<Failure>, AcmeError> {
    Files::of(settings).load(tls)
}

impl Acme {
    /// Reads the certificate of an earlier order into `tls`.
    ///
    /// # Errors
    /// If the files cannot be read. A certificate that cannot be used is ordered again.
    pub fn open(
        settings: AcmeSettings,
        tls: ServerTls,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, AcmeError> {
        let files = Files::of(&settings);
        let failure = match files.load(&tls) {
            Ok(failure) => failure.map(Failure::after_a_start),
            Err(AcmeError::Tls(error)) => {
                tracing::error!(%error, "the stored certificate cannot be used; a new one is ordered");
                None
            }
            Err(error) => return Err(error),
        };
        let (ordered_at, early_is_logged, unstored) = (None, false, None);
        Ok(Self {
            settings,
            files,
            tls,
            clock,
            entropy,
            records: None,
            key_records: None,
            next_key: NextKey::default(),
            failure,
            suggestion: None,
            ordered_at,
            early_is_logged,
            unstored,
        })
    }

    /// Lets the authority check names by records in DNS.
    #[must_use]
    pub fn with_records(self, records: Arc<dyn ChallengeRecords>) -> Self {
        Self { records: Some(records), ..self }
    }

    /// Keeps a next key, and lets a certificate have it when its records are in DNS.
    #[must_use]
    pub fn with_key_records(self, records: Arc<dyn KeyRecords>) -> Self {
        Self { key_records: Some(records), ..self }
    }

    /// Orders the certificate if that is due. Returns how long to wait before the next call.
    pub async fn step(&mut self) -> Duration {
        let now = self.now();
        if let Some(failure) = &self.failure
            && now < failure.next_attempt_at(now)
        {
            return renewal::pause(now, failure.next_attempt_at(now));
        }
        match self.do_what_is_due(now).await {
            Ok(()) => self.forget_failure(),
            Err(error) => self.fail(&error),
        }
        let now = self.now();
        let next = match &self.failure {
            Some(failure) => failure.next_attempt_at(now),
            None if self.due_at() <= now => self.order_at(),
            None => self.due_at().min(self.suggestion.as_ref().map_or(now, |suggestion| suggestion.ask_again_at)),
        };
        renewal::pause(now, next)
    }

    /// Returns whether the next call of [`Acme::step`] orders a certificate.
    #[must_use]
    pub fn orders_next(&self) -> bool {
        let now = self.now();
        self.order_at() <= now && self.failure.as_ref().is_none_or(|failure| failure.next_attempt_at(now) <= now)
    }

    async fn do_what_is_due(&mut self, now: i64) -> Result<(), AcmeError> {
        let stored = self.store();
        self.look_at_key_records(now).await;
        if self.due_at() > now && self.suggestion.as_ref().is_none_or(|suggestion| suggestion.ask_again_at <= now) {
            self.suggestion = Some(self.ask(now).await);
        }
        self.log_if_early(now);
        if self.order_at() <= now { self.order().await } else { stored }
    }

    /// Makes the next key if there is none, and looks whether its records are in DNS.
    async fn look_at_key_records(&mut self, now: i64) {
        let Some(records) = &self.key_records else { return };
        if let Err(error) = self.files.next_key() {
            tracing::error!(%error, "the key of the next certificate could not be made");
        }
        let publication = records.keep().await;
        self.next_key.note(publication, &self.files, now);
    }

    /// Returns the key for a new certificate.
    fn key_for_order(&self) -> Result<ServerKey, AcmeError> {
        match &self.key_records {
            Some(_) => self.next_key.choose(&self.files),
            None => ServerKey::generate(),
        }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_seconds()
    }

    /// Returns when the certificate must be ordered: at once if there is none for all names.
    fn due_at(&self) -> i64 {
        let is_complete = self.settings.names.iter().all(|name| self.tls.is_for(name));
        let validity = self.tls.validity().filter(|_| is_complete);
        validity.map_or(i64::MIN, |validity| renewal::due_at(validity, self.suggestion.as_ref()))
    }

    /// Returns when the certificate is ordered: when it is due, and some hours after the last order at the earliest. With
    /// a wrong clock or odd advice, each new certificate would be due at once.
    fn order_at(&self) -> i64 {
        let earliest = self.ordered_at.map(|at| at.saturating_add(renewal::shortest_use(self.tls.validity())));
        earliest.map_or(self.due_at(), |earliest| self.due_at().max(earliest))
    }

    fn log_if_early(&mut self, now: i64) {
        if self.ordered_at.is_none() || self.early_is_logged || self.due_at() > now || self.order_at() <= now {
            return;
        }
        self.early_is_logged = true;
        let retry_in = renewal::pause(now, self.order_at());
        tracing::error!(?retry_in, "the new certificate is due for renewal already; check the clock and the authority");
    }

    /// Asks the authority when it advises to renew (ARI, RFC 9773). Without an answer the lifetime decides.
    async fn ask(&self, now: i64) -> Suggestion {
        match self.ask_authority().await {
            Ok((window, ask_again_in)) => Suggestion::new(window, now, ask_again_in, self.entropy.as_ref()),
            Err(error) => {
                tracing::debug!(%error, "the authority advises no time of renewal");
                Suggestion::none(now)
            }
        }
    }

    async fn ask_authority(&self) -> Result<((i64, i64), Duration), AcmeError> {
        let certificate = self.identifier().ok_or_else(|| AcmeError::authority("the certificate has no identifier"))?;
        let (info, ask_again_in) = self.account().await?.renewal_info(&certificate).await?;
        let window = info.suggested_window;
        Ok(((window.start.unix_timestamp(), window.end.unix_timestamp()), ask_again_in))
    }

    /// Returns the identifier of the certificate in use (RFC 9773 section 4.1).
    fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let leaf = self.tls.leaf()?;
        let (authority, serial) = mailapi_tls::renewal_identity(&leaf)?;
        Some(CertificateIdentifier::new(Der::from_slice(authority), Der::from_slice(serial)))
    }

    async fn order(&mut self) -> Result<(), AcmeError> {
        let account = self.account().await?;
        let replaced = self.identifier().filter(|_| self.failure.is_none() && self.suggestion_is_known());
        let answers =
            Answers { way: self.way().await, listeners: self.tls.challenges(), records: self.records.as_deref() };
        let key = self.key_for_order()?;
        let pem = order::order(&account, &self.settings.names, replaced, &answers, &key).await?;
        self.check(&pem)?;
        self.note_former_key(&pem);
        // Used even if the disk cannot store it: authorities issue few certificates a week for the same names.
        self.tls.replace(pem.as_bytes(), pem.as_bytes())?;
        (self.suggestion, self.ordered_at, self.early_is_logged) = (None, Some(self.now()), false);
        let names = self.settings.names.join(", ");
        tracing::info!(names, "a new certificate is in use now");
        self.unstored = Some(pem);
        self.store()
    }

    /// Remembers the key that the new certificate replaces. A failure leaves its record in DNS, which does no harm.
    fn note_former_key(&self, pem: &str) {
        let former = self.tls.leaf().and_then(|leaf| mailapi_tls::key_digest_of(&leaf));
        let replaced = former.filter(|former| Some(*former) != server_key::digest_in(pem.as_bytes()));
        if let (Some(former), Some(_)) = (replaced, &self.key_records) {
            log_failure("the former key could not be noted", self.files.write_former_key(&former));
        }
    }

    /// Stores the certificate in use, if that has not succeeded yet.
    fn store(&mut self) -> Result<(), AcmeError> {
        let Some(pem) = &self.unstored else { return Ok(()) };
        self.files.write_certificate(pem)?;
        self.unstored = None;
        if self.key_records.is_some() {
            log_failure("the key of the next certificate could not be made", self.files.next_key().map(drop));
        }
        Ok(())
    }

    /// An authority that advises renewals also wants to know which certificate an order replaces.
    fn suggestion_is_known(&self) -> bool {
        self.suggestion.as_ref().is_some_and(Suggestion::is_advised)
    }

    /// Returns how the authority shall check the names. After a failure it is the next way, if there are several.
    ///
    /// Records in DNS come first: they also work if the authority cannot connect to this server.
    async fn way(&self) -> ChallengeType {
        let mut ways = Vec::new();
        if let Some(records) = &self.records
            && records.can_publish(&self.settings.names).await
        {
            ways.push(ChallengeType::Dns01);
        }
        if self.settings.has_https {
            ways.push(ChallengeType::TlsAlpn01);
        }
        ways.push(ChallengeType::Http01);
        let failures = self.failure.as_ref().map_or(0, |failure| failure.count);
        let next = usize::try_from(failures).unwrap_or_default() % ways.len();
        ways.swap_remove(next)
    }

    /// Rejects a certificate that listeners or clients could not use.
    fn check(&self, pem: &str) -> Result<(), AcmeError> {
        let issued = ServerTls::from_pem(pem.as_bytes(), pem.as_bytes())?;
        match self.settings.names.iter().find(|name| !issued.is_for(name)) {
            Some(name) => Err(TlsError::new(format!("the issued certificate is not for {name}")).into()),
            None => Ok(()),
        }
    }

    /// Returns the account at the authority; creates it at the first call.
    async fn account(&self) -> Result<Account, AcmeError> {
        let connections = Connections::new(client_config(&self.settings.trust)?);
        let account = Account::builder_with_http(Box::new(connections));
        if let Some(credentials) = self.files.account()? {
            return Ok(account.from_credentials(credentials).await?);
        }
        let new = NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = account.create(&new, self.settings.directory.clone(), None).await?;
        self.files.write_account(&credentials)?;
        Ok(account)
    }

    fn forget_failure(&mut self) {
        if self.failure.take().is_some() {
            log_failure("the record of a failed order could not be removed", self.files.forget_failure());
        }
    }

    fn fail(&mut self, error: &AcmeError) {
        let (now, before) = (self.now(), self.failure.as_ref().map_or(0, |failure| failure.count));
        let failure = Failure::new(before + 1, now, error.to_string(), self.entropy.as_ref());
        let retry_in = renewal::pause(now, failure.next_attempt_at(now));
        tracing::error!(%error, ?retry_in, "the certificate could not be ordered or stored");
        log_failure("the failed order could not be recorded", self.files.write_failure(&failure));
        if error.is_unknown_account() {
            log_failure("an account that the authority forgot could not be removed", self.files.forget_account());
        }
        self.failure = Some(failure);
    }
}

fn log_failure(what: &str, result: Result<(), AcmeError>) {
    if let Err(error) = result {
        tracing::error!(%error, "{what}");
    }
}
