//! One session: an account, then jobs one after the other.

use std::io::Write;

use mailapi_hosted_dns::{
    FailureKind, HostedAccount, HostedAnswer, HostedError, HostedJob, InvalidLine, LineError, MAX_LINE, read_line,
};
use tokio::io::BufReader;

use crate::change::{self, WantedChange};
use crate::library::HostedZone;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The input ended, or has a line that is not finished or too long.
    Done,
    /// The first line does not name an account.
    NoAccount,
}

/// Reads jobs and answers them until the input ends.
pub(crate) async fn run() -> SessionEnd {
    let mut input = BufReader::new(tokio::io::stdin());
    let account = match read_line(&mut input).await {
        Ok(Some(line)) => HostedAccount::from_line(&line),
        Ok(None) | Err(_) => Err(InvalidLine::Form),
    };
    let zone = match account.map_err(|error| invalid(&error.to_string())).and_then(HostedZone::new) {
        Ok(zone) => zone,
        Err(error) => {
            write(&HostedAnswer::Failed(error));
            return SessionEnd::NoAccount;
        }
    };
    loop {
        let line = match read_line(&mut input).await {
            Ok(Some(line)) => line,
            Err(LineError::TooLong) => {
                write(&HostedAnswer::Failed(invalid("the line is too long")));
                return SessionEnd::Done;
            }
            // The server ended within a line: an unfinished job is not run.
            Ok(None) | Err(LineError::Unfinished | LineError::Io(_)) => return SessionEnd::Done,
        };
        let answer = match HostedJob::from_line(&line) {
            Ok(job) => answer_to(&zone, job).await,
            Err(error) => HostedAnswer::Failed(invalid(&error.to_string())),
        };
        if !write(&answer) {
            return SessionEnd::Done;
        }
    }
}

async fn answer_to(zone: &HostedZone, job: HostedJob) -> HostedAnswer {
    if !zone.account().contains(job.name()) {
        return HostedAnswer::Failed(invalid("the name is not in the zone of the account"));
    }
    let answer = match job {
        HostedJob::List { name, kind } => change::list(zone, &name, kind).await.map(HostedAnswer::Records),
        HostedJob::Replace { name, kind, ttl, before, after } => {
            let change = WantedChange { name, kind, ttl, before, after };
            change::replace(zone, &change).await.map(|()| HostedAnswer::Replaced)
        }
    };
    match answer {
        Ok(answer) if answer.to_line().len() <= MAX_LINE => answer,
        Ok(_) => HostedAnswer::Failed(HostedError::new(FailureKind::Unsupported, "the records are too long")),
        Err(error) => HostedAnswer::Failed(error),
    }
}

/// Writes an answer; returns whether the server can read it.
fn write(answer: &HostedAnswer) -> bool {
    let mut output = std::io::stdout().lock();
    output.write_all(answer.to_line().as_bytes()).and_then(|()| output.flush()).is_ok()
}

fn invalid(message: &str) -> HostedError {
    HostedError::new(FailureKind::Invalid, message)
}
