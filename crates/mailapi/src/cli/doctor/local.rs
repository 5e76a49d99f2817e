//! Checks on this machine: Postfix's settings and tables, its log, the clock.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use mailapi_backend_embedded::message_store::{BrokenMailbox, MessageStoreError};
use mailapi_backend_external::log_follower::{FollowerStatus, LogSample, LogSettings};
use mailapi_backend_external::spawn_in_own_session;
use mailapi_model::{Clock as _, EmailAddress};
use mailapi_service::{Quarantined, Unavailable};

use super::Example;
use super::finding::Finding;
use crate::config::{Config, LogPlace};
use crate::failure::Outcome;
use crate::identity::become_user;
use crate::rights_thread::RightsThread;
use crate::system::{ServiceUser, SystemClock};

/// Mailboxes of one kind that are listed; a damaged database may have thousands.
const LISTED: usize = 20;

/// Checks for quarantined mail, which has no owner.
pub(super) fn quarantine(found: Result<Vec<Quarantined>, Unavailable>) -> Finding {
    const WHAT: &str = "quarantine";
    let found = match found {
        Ok(found) if found.is_empty() => return Finding::fine(WHAT, "every mailbox has an account"),
        Ok(found) => found,
        Err(error) => return Finding::unknown(WHAT, error),
    };
    let one = |Quarantined { address, messages, since }: &Quarantined| {
        format!("{messages} messages of {address} since {since}")
    };
    let listed: Vec<_> = found.iter().map(one).collect();
    let advice = "mailapi keeps this mail, but no account can read it; its account was deleted by an earlier version \
                  or between two starts";
    Finding::noted(WHAT, listed.join(", "), advice)
}

/// Checks that each mailbox of the built-in server can take mail.
pub(super) fn broken_mailboxes(found: Result<Vec<BrokenMailbox>, MessageStoreError>) -> Finding {
    const WHAT: &str = "mailboxes";
    let found = match found {
        Ok(found) if found.is_empty() => return Finding::fine(WHAT, "each can take mail"),
        Ok(found) => found,
        Err(error) => return Finding::wrong(WHAT, error, "restore the latest backup: the database is damaged"),
    };
    let mut listed: Vec<_> =
        found.iter().take(LISTED).map(|BrokenMailbox { address, reason }| format!("{address}: {reason}")).collect();
    if found.len() > LISTED {
        listed.push(format!("and {} more", found.len() - LISTED));
    }
    let advice = "restart the server: it gives folders new UIDs, corrects counters and creates a missing INBOX; set damaged \
                  rules again. The other mailboxes of a message get it anyway";
    Finding::wrong(WHAT, listed.join(", "), advice)
}

/// Output of `postconf`, `postmap` and similar programs; `None` when the program is not installed.
pub(super) fn output_of(program: &str, arguments: &[&str]) -> Option<Result<String, String>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn_in_own_session(command).ok()?.wait_with_output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

/// Checks that the log is readable and contains lines of Postfix.
pub(super) fn log(config: &Config) -> Finding {
    let external = &config.mail.external;
    match (external.log_place(), config.log_follower(&config.data_dir)) {
        (Some(LogPlace::File(path)), Some(settings)) => log_file(&path, &settings),
        (Some(LogPlace::Journal(_)), Some(settings)) => journal(&settings),
        _ => Finding::unknown("log", "not followed here; run `mailapi follow` on the mail server's host"),
    }
}

fn log_file(path: &Path, settings: &LogSettings) -> Finding {
    let path = path.display();
    let sample = match LogSample::of(settings, SystemClock::new().now()) {
        Ok(sample) => sample,
        Err(error) => {
            return Finding::wrong(
                "log",
                format!("{path} cannot be read: {error}"),
                "set mail.external.log.path to Postfix's log, and let mailapi's user read it (on Debian, by the group \
                 adm); without a syslog daemon, set maillog_file of Postfix, or mail.external.log.journal",
            );
        }
    };
    let LogSample { lines, understood } = sample;
    if lines == 0 {
        return Finding::fine("log", format!("{path} can be read, and is empty"));
    }
    if understood > 0 {
        return Finding::fine("log", format!("{path} can be read"));
    }
    let what = format!("none of the newest {lines} lines of {path} is a Postfix line that mailapi understands");
    let advice = "compare mail.external.log.path and syslog_name with Postfix's maillog_file and syslog_name; mailapi reads \
                  the traditional syslog format, also with RFC 3339 times, and RFC 5424, for which rsyslog needs \
                  global(parser.permitSlashInProgramName=\"on\")";
    foreign(settings, what, advice)
}

/// Finding for a log whose last lines are not from Postfix.
fn foreign(settings: &LogSettings, what: String, advice: &'static str) -> Finding {
    match FollowerStatus::saved(settings) {
        // Other programs that share the log may have written its last lines.
        Ok(Some(FollowerStatus { last_line_at: Some(at), .. })) => {
            Finding::noted("log", format!("{what}; the newest understood line is from {at}"), advice)
        }
        _ => Finding::wrong("log", what, advice),
    }
}

/// Checks that the journal is readable and contains lines of Postfix.
fn journal(settings: &LogSettings) -> Finding {
    let LogSample { lines, understood } = match LogSample::of(settings, SystemClock::new().now()) {
        Ok(sample) => sample,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Finding::wrong("log", "journalctl is not installed", "set mail.external.log.path to a log file");
        }
        // An entry that is too long is no reason to change permissions.
        Err(error) if error.kind() == ErrorKind::InvalidData => return Finding::unknown("log", error),
        Err(error) => {
            return Finding::wrong(
                "log",
                error,
                "add mailapi's user to the group systemd-journal, which may read the journal",
            );
        }
    };
    if understood > 0 {
        return Finding::fine("log", "the journal can be read");
    }
    let advice = "compare mail.external.log.journal_directory and syslog_name with Postfix's syslog_name; Postfix with \
                  maillog_file does not write to the journal";
    if lines == 0 {
        return Finding::noted("log", "the journal has no entry of the mail facility", advice);
    }
    let what = format!("none of the journal's newest {lines} entries of the mail facility is a Postfix line");
    foreign(settings, what, advice)
}

/// Starts the thread that looks keys up in Postfix's tables. They may have the database's password, so that mailapi's user
/// cannot read them. Postfix's own user can, and has no other rights.
pub(in crate::cli) fn table_reader() -> Outcome<RightsThread> {
    let thread = RightsThread::start()?;
    let user = output_of("postconf", &["-h", "mail_owner"]).and_then(Result::ok);
    if let Some(user) = user.and_then(|name| ServiceUser::named(&name)) {
        thread.run(move || become_user(&user))??;
    }
    Ok(thread)
}

/// Checks the settings of Postfix, if it is on this machine, and looks the example up in its tables if mailapi
/// provides them.
pub(super) fn postfix(maps: Option<&Example>, reader: &RightsThread) -> Vec<Finding> {
    let Some(Ok(long_ids)) = output_of("postconf", &["-h", "enable_long_queue_ids"]) else {
        return vec![Finding::unknown("Postfix", "not on this machine; run the doctor on its host, too")];
    };
    let ids = match long_ids.as_str() {
        "yes" => Finding::fine("queue ids", "long, and never reused"),
        _ => Finding::wrong(
            "queue ids",
            "Postfix reuses short queue ids, so messages can be mixed up",
            "run `postconf -e 'enable_long_queue_ids = yes' && postfix reload`",
        ),
    };
    let Some(Example { domain, mailbox }) = maps else { return vec![ids] };
    let mailbox = mailbox.as_ref().map(EmailAddress::as_str);
    vec![
        ids,
        table("domain lookups", "virtual_mailbox_domains", domain.as_deref(), reader),
        table("mailbox lookups", "virtual_mailbox_maps", mailbox, reader),
    ]
}

/// Looks a key up in a Postfix table, which must contain it.
fn table(what: &'static str, parameter: &str, key: Option<&str>, reader: &RightsThread) -> Finding {
    let mend = "run the script that `mailapi config postfix --write` creates, and let Postfix read the tables";
    let Some(key) = key else { return Finding::unknown(what, "not checked, because there is nothing to look up yet") };
    let tables = match output_of("postconf", &["-xh", parameter]) {
        Some(Ok(tables)) if tables.contains(':') => tables,
        _ => return Finding::wrong(what, format!("{parameter} of Postfix names no table"), mend),
    };
    let known = tables.split([',', ' ']).filter(|table| table.contains(':')).any(|table| {
        // The proxy returns the same result, but accepts queries from Postfix's own users only.
        let (key, table) = (key.to_owned(), table.strip_prefix("proxy:").unwrap_or(table).to_owned());
        let answer = reader.run(move || output_of("postmap", &["-q", &key, &table]));
        matches!(answer, Ok(Some(Ok(answer))) if !answer.is_empty())
    });
    if known {
        Finding::fine(what, format!("Postfix finds {key}"))
    } else {
        Finding::wrong(what, format!("Postfix does not find {key} in {tables}"), mend)
    }
}

/// Checks this machine's clock, which times in the log and in messages are compared with.
pub(super) fn clock() -> Finding {
    match output_of("timedatectl", &["show", "--property=NTPSynchronized", "--value"]) {
        Some(Ok(answer)) if answer == "yes" => Finding::fine("clock", "synchronized"),
        Some(Ok(answer)) if answer == "no" => {
            Finding::wrong("clock", "not synchronized", "run `timedatectl set-ntp true`, or install chrony")
        }
        _ => Finding::unknown("clock", "this machine does not report whether it is synchronized"),
    }
}

#[cfg(test)]
mod tests {
    use mailapi_backend_external::log_follower::LogSource;

    use super::*;

    #[test]
    fn a_log_that_is_not_that_of_postfix_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mail.log");
        let settings = LogSettings::new(LogSource::file(path.clone()), dir.path().join("state"));
        let look = |text: &str| {
            std::fs::write(&path, text).unwrap();
            log_file(&path, &settings)
        };
        assert!(log_file(&path, &settings).is_wrong());
        assert!(log_file(dir.path(), &LogSettings::new(LogSource::file(dir.path()), dir.path())).is_wrong());
        assert!(!look("").is_wrong());
        assert!(look("<22>1 2026-11-21T07:45:38Z mx postfix 7 - - 4jWk1: removed\n").is_wrong());
        assert!(look("Nov 21 07:45:38 mx mta/qmgr[7]: 4jWk1: removed\n").is_wrong());
        assert!(!look("<22>1 2026-11-21T07:45:38Z mx postfix/qmgr 7 - - 4jWk1: removed\n").is_wrong());
    }
}
