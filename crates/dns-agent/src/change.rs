//! Changes of records, of which the result is read back.

use std::time::Duration;

use mailapi_hosted_dns::{ANSWER_LIMIT, FailureKind, HostedError, HostedRecords};
use mailapi_model::{RecordData, RecordKind};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::library::{HostedZone, can_be_expressed};

/// Time limit of a list, with the library's own repetitions.
const LIST_LIMIT: Duration = Duration::from_secs(7);
/// Time limit of a write, with the library's own repetitions.
const WRITE_LIMIT: Duration = Duration::from_secs(8);
/// Time after a write in which the provider must show it.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// Pauses between the lists after a write. The last one repeats.
const PAUSES_MS: [u64; 5] = [0, 250, 500, 1000, 2000];

/// The server stops waiting after this.
const _: () = assert!(LIST_LIMIT.as_secs() + WRITE_LIMIT.as_secs() + SETTLE_LIMIT.as_secs() < ANSWER_LIMIT.as_secs());

/// A replacement of the records of a name and type.
#[derive(Debug)]
pub(crate) struct WantedChange {
    pub(crate) name: String,
    pub(crate) kind: RecordKind,
    pub(crate) ttl: u32,
    pub(crate) before: Vec<RecordData>,
    pub(crate) after: Vec<RecordData>,
}

/// Returns the records of a name and type.
pub(crate) async fn list(zone: &HostedZone, name: &str, kind: RecordKind) -> Result<HostedRecords, HostedError> {
    timeout(LIST_LIMIT, zone.list(name, kind)).await.unwrap_or_else(|_| {
        Err(unanswered("the provider gave no answer in time, or asks for a long pause between requests"))
    })
}

/// Replaces the records, and waits until the provider shows the new ones.
///
/// The comparison and the write are two requests, because HTTP APIs have no conditional changes. A change that another
/// writer makes between both is lost.
pub(crate) async fn replace(zone: &HostedZone, change: &WantedChange) -> Result<(), HostedError> {
    if !change.before.iter().chain(&change.after).all(can_be_expressed) {
        return Err(HostedError::new(
            FailureKind::Unsupported,
            "a text has other characters than printable ASCII, or a TLSA record unusual values",
        ));
    }
    if !are_same(&list(zone, &change.name, change.kind).await?.records, &change.before) {
        return Err(HostedError::new(FailureKind::Moved, "the records have changed meanwhile"));
    }
    if are_same(&change.before, &change.after) {
        return Ok(());
    }
    let written = timeout(WRITE_LIMIT, zone.set(change)).await;
    match written.unwrap_or_else(|_| Err(unanswered("the provider did not answer the change in time"))) {
        Ok(()) => settle(zone, change, None).await,
        Err(failure) => settle(zone, change, Some(failure)).await,
    }
}

/// Lists the records until they are the new ones.
///
/// A provider may show old records for some seconds after it took a change. So the old ones are a proof of failure at once
/// only if it refused the change.
async fn settle(zone: &HostedZone, change: &WantedChange, failure: Option<HostedError>) -> Result<(), HostedError> {
    let deadline = Instant::now() + SETTLE_LIMIT;
    let is_refused = failure.as_ref().is_some_and(|failure| failure.kind != FailureKind::Unanswered);
    let (mut shown, mut list_failure) = (None, None);
    let pauses = PAUSES_MS.into_iter().chain(std::iter::repeat(PAUSES_MS[PAUSES_MS.len() - 1]));
    for pause in pauses.map(Duration::from_millis) {
        if Instant::now() + pause >= deadline {
            break;
        }
        sleep(pause).await;
        match timeout_at(deadline, list(zone, &change.name, change.kind)).await {
            Ok(Ok(found)) if are_same(&found.records, &change.after) => return Ok(()),
            Ok(Ok(found)) => {
                shown = Some(found.records);
                if is_refused {
                    break;
                }
            }
            Ok(Err(error)) => list_failure = Some(error),
            Err(_) => break,
        }
    }
    let is_unchanged = shown.as_ref().is_some_and(|records| are_same(records, &change.before));
    Err(match (failure, is_unchanged) {
        (Some(failure), true) if is_refused => failure,
        (Some(failure), true) => {
            let message = format!("the change failed and the records are unchanged: {}", failure.message);
            HostedError::new(FailureKind::Refused, &message)
        }
        (Some(failure), false) => unanswered(&match shown {
            Some(_) => format!("the change failed, and the provider shows other records: {}", failure.message),
            None => format!("the change failed, and the provider does not list the records: {}", failure.message),
        }),
        (None, _) => unanswered(&match (shown, list_failure) {
            (Some(_), _) => "the provider accepted the change, and shows other records".to_owned(),
            (None, Some(error)) => {
                format!("the provider accepted the change, and does not list the records: {}", error.message)
            }
            (None, None) => "the provider accepted the change, and does not list the records in time".to_owned(),
        }),
    })
}

/// Whether both have the same records in any order. Of a text the library returns only the joined strings.
pub(crate) fn are_same(a: &[RecordData], b: &[RecordData]) -> bool {
    let normal = |records: &[RecordData]| {
        let mut records: Vec<_> = records
            .iter()
            .map(|record| record.joined_text().map_or_else(|| record.clone(), |text| RecordData::text(&text)))
            .collect();
        records.sort();
        records.dedup();
        records
    };
    normal(a) == normal(b)
}

fn unanswered(message: &str) -> HostedError {
    HostedError::new(FailureKind::Unanswered, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_compared_as_sets() {
        let mx = |text| RecordData::parse(RecordKind::Mx, text).unwrap();
        assert!(are_same(&[mx("10 a."), mx("20 b.")], &[mx("20 B."), mx("10 a."), mx("10 a.")]));
        assert!(!are_same(&[mx("10 a.")], &[mx("10 a."), mx("20 b.")]));
        let txt = |text| RecordData::parse(RecordKind::Txt, text).unwrap();
        assert!(are_same(&[txt("\"ab\" \"c\"")], &[txt("\"a\" \"bc\"")]));
        assert!(!are_same(&[txt("\"ab\"")], &[txt("\"a b\"")]));
        assert!(are_same(&[], &[]));
    }
}
