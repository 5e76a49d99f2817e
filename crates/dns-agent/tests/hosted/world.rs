//! The program, an account at an imitated provider, and its records.

use std::ffi::OsString;
use std::future::Future;
use std::time::Duration;

use mailapi_hosted_dns::{AgentProgram, DnsAgent, FailureKind, HostedAccount, HostedError};
use mailapi_model::{RecordData, RecordKind, RecordSet, Secret, SetChange};
use tempfile::NamedTempFile;
use tokio::time::timeout;

use crate::proxy::ApiProxy;
use crate::store::{ApiTrouble, ProviderStore, TroubleAt};
use crate::{cloudflare, desec, route53};

/// The zone of every story.
pub(crate) const ZONE: &str = "example.org";
/// The providers that are imitated.
pub(crate) const PROVIDERS: [&str; 3] = ["cloudflare", "desec", "route53"];
/// Time limit of what a test waits for, beyond that of an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The imitated providers, and how to start the program for them.
pub(crate) struct HostedWorld {
    pub(crate) proxy: ApiProxy,
    authority: NamedTempFile,
}

impl HostedWorld {
    /// Starts imitations that have one zone without records.
    pub(crate) async fn start() -> Self {
        let proxy = ApiProxy::start().await;
        let authority = NamedTempFile::new().unwrap();
        std::fs::write(authority.path(), &proxy.authority).unwrap();
        let world = Self { proxy, authority };
        for provider in PROVIDERS {
            world.store(provider).lock().zones.push(ZONE.to_owned());
        }
        world
    }

    pub(crate) fn store(&self, provider: &str) -> &ProviderStore {
        let stores = &self.proxy.stores;
        match provider {
            "cloudflare" => &stores.cloudflare,
            "desec" => &stores.desec,
            _ => &stores.route53,
        }
    }

    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let proxy = format!("http://{}", self.proxy.address);
        vec![
            ("HTTPS_PROXY".into(), proxy.into()),
            ("SSL_CERT_FILE".into(), self.authority.path().into()),
            ("MAILAPI_TOKEN".into(), "canary-of-the-server".into()),
        ]
    }

    pub(crate) fn program(&self) -> AgentProgram {
        AgentProgram::new(env!("CARGO_BIN_EXE_mailapi-dns"), self.environment())
    }

    pub(crate) async fn agent(&self, provider: &str) -> DnsAgent {
        self.agent_of(account(provider, ZONE)).await
    }

    pub(crate) async fn agent_of(&self, account: HostedAccount) -> DnsAgent {
        within(DnsAgent::start(&self.program(), account)).await.unwrap()
    }

    /// Makes the next requests of a kind go wrong.
    pub(crate) fn trouble(&self, provider: &str, at: TroubleAt, times: usize, trouble: ApiTrouble) {
        self.store(provider).lock().troubles.push((at, times, trouble));
    }
}

/// Returns the account that an imitation accepts.
pub(crate) fn account(provider: &str, zone: &str) -> HostedAccount {
    HostedAccount::new(provider, credentials(provider), zone).unwrap()
}

pub(crate) fn credentials(provider: &str) -> Vec<(String, Secret<String>)> {
    let fields = match provider {
        "cloudflare" => vec![("api_token", cloudflare::TOKEN)],
        "desec" => vec![("token", desec::TOKEN)],
        _ => vec![("access_key_id", route53::ACCESS_KEY), ("secret_access_key", route53::SECRET_KEY)],
    };
    fields.into_iter().map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned()))).collect()
}

/// Returns a change of the zone. Each record is in the syntax of master files; those of a text are in parts.
pub(crate) fn change(name: &str, kind: RecordKind, before: &[&str], after: &[&str]) -> SetChange {
    let set = |records: &[&str]| RecordSet {
        ttl: 3600,
        records: records.iter().map(|text| RecordData::parse(kind, text).unwrap()).collect(),
    };
    SetChange { zone: ZONE.to_owned(), name: name.to_owned(), kind, before: set(before), after: set(after) }
}

/// Returns the change that undoes another.
pub(crate) fn undone(change: &SetChange) -> SetChange {
    SetChange { before: change.after.clone(), after: change.before.clone(), ..change.clone() }
}

/// Asserts the kind of a failure and returns its message.
#[track_caller]
pub(crate) fn failed(result: Result<(), HostedError>, kind: FailureKind) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    error.message
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(LIMIT, future).await.expect("the fixture answers in time")
}
