//! TXT records for mail-auth, looked up in advance.
//!
//! mail-auth 0.13.3 asks its own DNS client. It looks into its caches first, so the records are put there, and
//! what is not there does not exist. Its client has no name servers.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::future::join_all;
use mail_auth::common::parse::TxtRecordParser;
use mail_auth::common::resolver::ToFqdn;
use mail_auth::common::verify::DomainKey;
use mail_auth::dmarc::Dmarc;
use mail_auth::hickory_resolver::TokioResolver;
use mail_auth::hickory_resolver::config::ResolverConfig;
use mail_auth::hickory_resolver::net::runtime::TokioRuntimeProvider;
use mail_auth::{DnsError, Error, MX, MessageAuthenticator, Parameters, RecordSet, ResolverCache, Txt};

use mailapi_tls::{Trust, client_config};

use super::key_record;
use super::lookups::{Lookups, Unanswered};
use super::policy_record::PolicyRecord;

/// mail-auth without its own DNS; created at the first use.
#[derive(Default)]
pub(crate) struct Verifier(OnceLock<Option<MessageAuthenticator>>);

impl Verifier {
    /// Returns mail-auth; `None` if its DNS client, which is not used, cannot be created.
    pub(super) fn get(&self) -> Option<&MessageAuthenticator> {
        let create = || {
            offline().inspect_err(|error| tracing::error!(error, "signatures of inbound mail cannot be checked")).ok()
        };
        self.0.get_or_init(create).as_ref()
    }
}

/// Creates mail-auth without name servers. Its own constructor would fail where no certificate is trusted, as in many
/// container images.
fn offline() -> Result<MessageAuthenticator, String> {
    let no_tls = client_config(&Trust::Nobody).map_err(|error| error.to_string())?;
    let nowhere = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
    let resolver = TokioResolver::builder_with_config(nowhere, TokioRuntimeProvider::default())
        .with_tls_config(Arc::unwrap_or_clone(no_tls))
        .build()
        .map_err(|error| error.to_string())?;
    Ok(MessageAuthenticator(resolver))
}

/// TXT records by name.
#[derive(Default, Clone)]
pub(super) struct Answers(HashMap<Box<str>, Txt>);

/// The parameters of a function of mail-auth.
pub(super) type WithAnswers<'x, P> = Parameters<'x, P, Answers, Answers, Answers, Answers, Answers>;

impl Answers {
    /// Looks up the keys of signatures.
    pub(super) async fn keys(lookups: &Lookups<'_>, names: &[String]) -> Self {
        Self::fetched(lookups, names, key).await
    }

    /// Looks up DMARC policies.
    pub(super) async fn policies(lookups: &Lookups<'_>, names: &[String]) -> Self {
        Self::fetched(lookups, names, policy).await
    }

    async fn fetched(lookups: &Lookups<'_>, names: &[String], read: fn(&[String]) -> Txt) -> Self {
        let one = |name| async move {
            let name: &String = name;
            let answer = match lookups.txt(name).await {
                Ok(texts) => read(&texts),
                Err(Unanswered) => Txt::Error(Self::unanswered_error()),
            };
            (name.to_fqdn().into_owned().into_boxed_str(), answer)
        };
        Self(join_all(names.iter().map(one)).await.into_iter().collect())
    }

    /// Returns the policy at a name.
    pub(super) fn policy(&self, name: &str) -> Option<&Arc<Dmarc>> {
        match self.0.get(name) {
            Some(Txt::Dmarc(policy)) => Some(policy),
            _ => None,
        }
    }

    /// Returns the error that stands for a missing answer.
    pub(super) const fn unanswered_error() -> Error {
        Error::Dns(DnsError::Resolver(String::new()))
    }

    /// Returns the names that were not answered.
    pub(super) fn unanswered(&self) -> Vec<String> {
        let is_unanswered = |answer: &Txt| matches!(answer, Txt::Error(Error::Dns(DnsError::Resolver(_))));
        self.0.iter().filter(|(_, answer)| is_unanswered(answer)).map(|(name, _)| name.to_string()).collect()
    }

    /// Returns these records, with this policy at each of the names.
    pub(super) fn supposing(&self, names: &[String], record: Option<&str>) -> Self {
        let record = record.map_or_else(missing, |record| policy(&[record.to_owned()]));
        let mut answers = self.clone();
        answers.0.extend(names.iter().map(|name| (name.as_str().into(), record.clone())));
        answers
    }

    /// Returns whether a name was looked up.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns these records and others.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Changes every policy.
    pub(super) fn change_policies(&mut self, change: impl Fn(&mut Dmarc)) {
        for answer in self.0.values_mut() {
            if let Txt::Dmarc(policy) = answer {
                change(Arc::make_mut(policy));
            }
        }
    }

    pub(super) const fn with<P>(&self, params: P) -> WithAnswers<'_, P> {
        Parameters {
            params,
            cache_txt: Some(self),
            cache_mx: Some(self),
            cache_ptr: Some(self),
            cache_ipv4: Some(self),
            cache_ipv6: Some(self),
        }
    }
}

const fn missing() -> Txt {
    Txt::Error(Error::Dns(DnsError::InvalidRecordType))
}

/// Returns the first key that can be read (RFC 6376 section 3.6.2.2 leaves several undefined).
fn key(texts: &[String]) -> Txt {
    let texts = texts.iter().filter(|text| key_record::is_for_mail(text));
    let mut keys = texts.map(|text| DomainKey::parse(text.as_bytes()));
    match keys.next() {
        None => missing(),
        Some(Ok(key)) => Txt::DomainKey(Arc::new(key)),
        Some(Err(error)) => keys.find_map(Result::ok).map_or(Txt::Error(error), |key| Txt::DomainKey(Arc::new(key))),
    }
}

/// Returns the policy of a name; several mean none (RFC 9989 section 4.10).
fn policy(texts: &[String]) -> Txt {
    let mut records = texts.iter().map(|text| PolicyRecord::of(text)).filter(|record| *record != PolicyRecord::Other);
    match (records.next(), records.next()) {
        (Some(PolicyRecord::Policy(record)), None) => {
            Dmarc::parse(record.as_bytes()).map_or_else(Txt::Error, |policy| Txt::Dmarc(Arc::new(policy)))
        }
        _ => missing(),
    }
}

impl ResolverCache<Box<str>, Txt> for Answers {
    fn get<Q>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(self.0.get(name).cloned().unwrap_or_else(missing))
    }

    fn remove<Q>(&self, _: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: Txt, _: Instant) {}
}

/// Signatures and policies need no other records.
macro_rules! no_records {
    ($($key:ty => $record:ty),+ $(,)?) => {$(
        impl ResolverCache<$key, RecordSet<$record>> for Answers {
            fn get<Q>(&self, _: &Q) -> Option<RecordSet<$record>>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                Some(RecordSet { rrset: Arc::from([]), dnssec_status: mail_auth::DnssecStatus::Indeterminate })
            }

            fn remove<Q>(&self, _: &Q) -> Option<RecordSet<$record>>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn insert(&self, _: $key, _: RecordSet<$record>, _: Instant) {}
        }
    )+};
}

no_records!(Box<str> => MX, Box<str> => Ipv4Addr, Box<str> => Ipv6Addr, IpAddr => Box<str>);
