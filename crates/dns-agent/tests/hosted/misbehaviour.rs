//! What happens when the provider fails, or does not do what its documents say.

use futures_util::future::join_all;
use mailapi_hosted_dns::FailureKind;
use mailapi_model::RecordKind;

use crate::store::{ApiTrouble, TroubleAt};
use crate::world::{HostedWorld, PROVIDERS, ZONE, change, failed, within};

const OLD: &str = "10 old.example.";
const NEW: &str = "10 mx.example.";

/// What became of the one change of a test.
#[derive(Debug, PartialEq, Eq)]
struct ChangeOutcome {
    result: Result<(), FailureKind>,
    is_new: bool,
}

/// Adds a record to an empty set while the next requests go wrong.
async fn added_during(provider: &str, at: TroubleAt, times: usize, trouble: ApiTrouble) -> (ChangeOutcome, String) {
    let world = HostedWorld::start().await;
    let mut agent = world.agent(provider).await;
    // The zone is found before the trouble.
    within(agent.list(ZONE, RecordKind::Mx)).await.unwrap();
    world.trouble(provider, at, times, trouble);
    let result = within(agent.replace(&change(ZONE, RecordKind::Mx, &[], &[NEW]))).await;
    agent.stop().await;
    let is_new = !world.store(provider).lock().records.is_empty();
    let message = result.as_ref().err().map(|error| error.message.clone()).unwrap_or_default();
    (ChangeOutcome { result: result.map_err(|error| error.kind), is_new }, message)
}

#[tokio::test]
async fn refused_writes_change_nothing() {
    for provider in PROVIDERS {
        for (status, kind) in [
            (401, FailureKind::Credentials),
            (403, FailureKind::Credentials),
            (404, FailureKind::NotFound),
            (409, FailureKind::Refused),
        ] {
            let (outcome, _) = added_during(provider, TroubleAt::Writes, 1, ApiTrouble::Status(status)).await;
            assert_eq!(outcome, ChangeOutcome { result: Err(kind), is_new: false }, "{provider} {status}");
        }
    }
}

#[tokio::test]
async fn refused_reads_change_nothing() {
    for provider in PROVIDERS {
        for (status, kind) in
            [(401, FailureKind::Credentials), (403, FailureKind::Credentials), (500, FailureKind::Unanswered)]
        {
            let (outcome, _) = added_during(provider, TroubleAt::Reads, 9, ApiTrouble::Status(status)).await;
            assert_eq!(outcome, ChangeOutcome { result: Err(kind), is_new: false }, "{provider} {status}");
        }
    }
}

#[tokio::test]
async fn a_limit_that_ends_soon_is_waited_for() {
    for provider in PROVIDERS {
        let (outcome, message) = added_during(provider, TroubleAt::Writes, 1, ApiTrouble::Limited(1)).await;
        assert_eq!(outcome, ChangeOutcome { result: Ok(()), is_new: true }, "{provider} {message}");
    }
}

#[tokio::test]
async fn a_limit_that_stays_is_a_failure_of_its_own() {
    for provider in PROVIDERS {
        let (outcome, _) = added_during(provider, TroubleAt::Writes, 9, ApiTrouble::Limited(0)).await;
        assert_eq!(outcome, ChangeOutcome { result: Err(FailureKind::Limited), is_new: false }, "{provider}");
    }
}

#[tokio::test]
async fn a_limit_of_an_hour_ends_a_list_in_time() {
    for provider in ["cloudflare", "desec"] {
        let (outcome, message) = added_during(provider, TroubleAt::Reads, 9, ApiTrouble::Limited(3600)).await;
        assert_eq!(outcome, ChangeOutcome { result: Err(FailureKind::Unanswered), is_new: false }, "{provider}");
        assert!(message.contains("pause"), "{message}");
    }
}

#[tokio::test]
async fn a_write_that_was_done_before_its_failure_is_found() {
    let run = async |provider, trouble| {
        let (outcome, message) = added_during(provider, TroubleAt::Writes, 1, trouble).await;
        assert_eq!(outcome, ChangeOutcome { result: Ok(()), is_new: true }, "{provider} {trouble:?} {message}");
    };
    let troubles = [
        ApiTrouble::StatusAfterwards(500),
        ApiTrouble::HalfBody,
        ApiTrouble::CutJson,
        ApiTrouble::CutAfterwards,
        ApiTrouble::Hang,
    ];
    let cases = PROVIDERS.iter().flat_map(|provider| troubles.map(|trouble| run(provider, trouble)));
    join_all(cases).await;
}

#[tokio::test]
async fn a_write_that_was_not_done_is_refused_after_a_while() {
    let both = async |provider| {
        let (outcome, message) = added_during(provider, TroubleAt::Writes, 9, ApiTrouble::Status(500)).await;
        assert_eq!(outcome, ChangeOutcome { result: Err(FailureKind::Refused), is_new: false }, "{provider}");
        assert!(message.contains("unchanged") && message.contains("500"), "{message}");
        let (outcome, _) = added_during(provider, TroubleAt::Writes, 9, ApiTrouble::CutBefore).await;
        assert_eq!(outcome, ChangeOutcome { result: Err(FailureKind::Refused), is_new: false }, "{provider}");
    };
    tokio::join!(both("cloudflare"), both("desec"), both("route53"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        world.trouble(provider, TroubleAt::Reads, 1, ApiTrouble::Redirect);
        let wanted = change(ZONE, RecordKind::Mx, &[], &[NEW]);
        let message = failed(within(agent.replace(&wanted)).await, FailureKind::Unanswered);
        assert!(message.contains("302"), "{message}");
    }
    assert_eq!(*world.proxy.stores.other_hosts.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn old_records_that_are_shown_for_a_while_are_waited_for() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        within(agent.replace(&change(ZONE, RecordKind::Mx, &[], &[OLD]))).await.unwrap();
        world.store(provider).lock().stale_reads = 3;
        within(agent.replace(&change(ZONE, RecordKind::Mx, &[OLD], &[NEW]))).await.unwrap();
    }
}

#[tokio::test]
async fn records_that_never_appear_are_no_success() {
    let world = HostedWorld::start().await;
    let run = async |provider| {
        let mut agent = world.agent(provider).await;
        within(agent.replace(&change(ZONE, RecordKind::Mx, &[], &[OLD]))).await.unwrap();
        world.store(provider).lock().stale_reads = 1000;
        let result = within(agent.replace(&change(ZONE, RecordKind::Mx, &[OLD], &[NEW]))).await;
        let message = failed(result, FailureKind::Unanswered);
        assert_eq!(message, "the provider accepted the change, and shows other records");
    };
    tokio::join!(run("cloudflare"), run("desec"), run("route53"));
}

/// The client of Cloudflare deletes the old records one by one, then makes the new ones.
#[tokio::test]
async fn half_a_change_is_not_called_unchanged() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("cloudflare").await;
    within(agent.replace(&change(ZONE, RecordKind::Mx, &[], &[OLD, "20 older.example."]))).await.unwrap();
    {
        let mut state = world.store("cloudflare").lock();
        // The first deletion is done, although its answer is an error.
        state.troubles.push((TroubleAt::Writes, 1, ApiTrouble::StatusAfterwards(502)));
    }
    let wanted = change(ZONE, RecordKind::Mx, &[OLD, "20 older.example."], &[NEW]);
    let message = failed(within(agent.replace(&wanted)).await, FailureKind::Unanswered);
    assert!(message.contains("shows other records") && message.contains("502"), "{message}");
    assert_eq!(world.store("cloudflare").lock().values(ZONE, "MX"), ["20 older.example"]);
}

#[tokio::test]
async fn an_endless_answer_ends_the_program_not_the_server() {
    for provider in PROVIDERS {
        let world = HostedWorld::start().await;
        let mut agent = world.agent(provider).await;
        world.trouble(provider, TroubleAt::Reads, 99, ApiTrouble::Endless);
        let wanted = change(ZONE, RecordKind::Mx, &[], &[NEW]);
        let message = failed(within(agent.replace(&wanted)).await, FailureKind::Unanswered);
        assert!(message.contains("ended without an answer"), "{message}");
        assert_eq!(world.store(provider).lock().writes(), 0);
    }
}

#[tokio::test]
async fn a_list_that_hangs_has_an_answer_in_time() {
    let run = async |provider| {
        let (outcome, _) = added_during(provider, TroubleAt::Reads, 99, ApiTrouble::Hang).await;
        assert_eq!(outcome, ChangeOutcome { result: Err(FailureKind::Unanswered), is_new: false }, "{provider}");
    };
    tokio::join!(run("cloudflare"), run("desec"), run("route53"));
}
