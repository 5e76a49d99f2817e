//! Credentials appear in no answer, error, argument or environment.

use std::path::Path;

use mailapi_hosted_dns::{AgentProgram, DnsAgent, FailureKind, HostedAccount};
use mailapi_model::{RecordKind, Secret};

use crate::store::{ApiTrouble, TroubleAt};
use crate::world::{HostedWorld, PROVIDERS, ZONE, account, change, within};

/// Asserts that the text has no part of a credential.
#[track_caller]
fn assert_clean(text: &str) {
    assert!(!text.to_ascii_lowercase().contains("canary"), "{text}");
}

#[tokio::test]
async fn arguments_and_environment_have_no_credentials() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        within(agent.list(ZONE, RecordKind::Mx)).await.unwrap();
        let process = Path::new("/proc").join(agent.process_id().unwrap().to_string());
        assert_clean(&std::fs::read_to_string(process.join("cmdline")).unwrap());
        let environment = std::fs::read_to_string(process.join("environ")).unwrap();
        assert_clean(&environment);
        let mut names: Vec<_> = environment.split_terminator('\0').filter_map(|pair| pair.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["HTTPS_PROXY", "SSL_CERT_FILE"]);
        assert_clean(&format!("{agent:?}"));
    }
}

#[tokio::test]
async fn the_program_limits_itself() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("desec").await;
    within(agent.list(ZONE, RecordKind::Mx)).await.unwrap();
    let process = Path::new("/proc").join(agent.process_id().unwrap().to_string());
    let limits = std::fs::read_to_string(process.join("limits")).unwrap();
    for (name, limit) in [("Max address space", "536870912"), ("Max core file size", "0"), ("Max file size", "0")] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let values: Vec<_> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, [limit, limit], "{line}");
    }
    // Longer answers than in these stories have room too.
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    let peak: u32 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 384 * 1024, "{peak} KiB");
}

#[tokio::test]
async fn a_provider_that_repeats_credentials_is_scrubbed() {
    let run = async |provider, at, status| {
        let world = HostedWorld::start().await;
        let mut agent = world.agent(provider).await;
        world.trouble(provider, at, 9, ApiTrouble::Echo(status));
        let wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
        let error = within(agent.replace(&wanted)).await.unwrap_err();
        assert_clean(&format!("{error} {error:?}"));
    };
    let cases = PROVIDERS.iter().flat_map(|provider| {
        [TroubleAt::Reads, TroubleAt::Writes]
            .into_iter()
            .flat_map(|at| [400, 403, 500].map(|status| run(provider, at, status)))
    });
    futures_util::future::join_all(cases).await;
}

#[tokio::test]
async fn an_echo_reaches_the_message_without_the_credential() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        world.trouble(provider, TroubleAt::Reads, 1, ApiTrouble::Echo(400));
        let error = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
        assert!(error.message.contains("authorization") && error.message.contains('…'), "{error}");
    }
}

#[tokio::test]
async fn wrong_credentials_are_named_as_such() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let fields = account(provider, ZONE).credentials().clone().into_iter();
        let fields = fields.map(|(name, value)| (name, Secret::new(format!("{}-wrong", value.expose()))));
        let account = HostedAccount::new(provider, fields, ZONE).unwrap();
        let mut agent = world.agent_of(account).await;
        let error = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Credentials, "{error}");
        assert_clean(&error.to_string());
    }
}

#[tokio::test]
async fn a_machine_without_authorities_is_named_as_such() {
    let world = HostedWorld::start().await;
    let mut environment = world.environment();
    environment.retain(|(name, _)| name != "SSL_CERT_FILE");
    environment.push(("SSL_CERT_FILE".into(), "/nonexistent".into()));
    let program = AgentProgram::new(env!("CARGO_BIN_EXE_mailapi-dns"), environment);
    for provider in PROVIDERS {
        let mut agent = within(DnsAgent::start(&program, account(provider, ZONE))).await.unwrap();
        let error = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Unanswered);
        assert!(error.message.contains("certificates"), "{error}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (world, other) = (HostedWorld::start().await, HostedWorld::start().await);
    let mut environment = world.environment();
    environment.retain(|(name, _)| name != "SSL_CERT_FILE");
    environment.extend(other.environment().into_iter().filter(|(name, _)| name == "SSL_CERT_FILE"));
    let program = AgentProgram::new(env!("CARGO_BIN_EXE_mailapi-dns"), environment);
    for provider in PROVIDERS {
        let mut agent = within(DnsAgent::start(&program, account(provider, ZONE))).await.unwrap();
        let error = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Unanswered, "{error}");
        assert_eq!(world.store(provider).lock().requests, [""; 0]);
    }
}
