//! Which daemon of which Postfix instance wrote a line.

use mailapi_model::Timestamp;

use super::rfc5424;
use super::timestamp::{TimeReader, without_priority};

/// The facilities and levels that busybox's syslogd puts in front of a tag: `mail.info`.
const FACILITIES: [&str; 12] = [
    "mail", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7", "daemon", "user", "syslog",
];
const LEVELS: [&str; 10] = ["emerg", "panic", "alert", "crit", "err", "error", "warn", "warning", "notice", "info"];

/// What one record of the log says, before its text is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// When it was written.
    pub(super) at: Timestamp,
    /// Whose queue it is about: `postfix`, or the name of another instance (`postfix-out`). Queue ids are unique
    /// within one instance only.
    pub(super) instance: &'a str,
    /// The name that a listener was given in master.cf (`submission` in `postfix/submission/smtpd`).
    pub(super) service: Option<&'a str>,
    /// The program: `smtpd`, `qmgr`, …
    pub(super) daemon: &'a str,
    /// Its process.
    pub(super) pid: u32,
    /// What it said.
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    /// Takes a line of a log file apart. `None` for lines of other programs.
    pub(super) fn of_file(
        line: &'a str,
        syslog_name: &str,
        times: &mut TimeReader,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Option<Self> {
        // Looking at the time is the dearest part; most lines of a shared log are of other programs.
        if !line.contains(syslog_name) {
            return None;
        }
        let line = without_priority(line);
        if let Some(line) = rfc5424::from_time(line) {
            let (at, rest) = times.read(line, now, before)?;
            let record = rfc5424::record(rest)?;
            return Self::of_program(at, record.program, record.process.unwrap_or(0), record.text, syslog_name);
        }
        let (at, rest) = times.read(line, now, before)?;
        let rest = of_container(rest, times, now, before).unwrap_or(rest);
        let (first, after) = rest.split_once(' ')?;
        // Some templates leave the host out.
        let (tag, text) = match first.strip_suffix(':') {
            Some(tag) => (tag, after),
            None => tag_after_host(after)?,
        };
        Self::of_tag(at, tag, text, syslog_name)
    }

    /// A record whose tag (`postfix/smtpd[123]`) is known already.
    pub(super) fn of_tag(at: Timestamp, tag: &'a str, text: &'a str, syslog_name: &str) -> Option<Self> {
        let (name, pid) = match tag.strip_suffix(']').and_then(|tag| tag.rsplit_once('[')) {
            Some((name, pid)) => (name, pid.parse().ok()?),
            None => (tag, 0),
        };
        Self::of_program(at, name, pid, text, syslog_name)
    }

    fn of_program(at: Timestamp, name: &'a str, pid: u32, text: &'a str, syslog_name: &str) -> Option<Self> {
        let (path, daemon) = name.rsplit_once('/')?;
        let (instance, service) = match path.split_once('/') {
            Some((instance, service)) => (instance, Some(service)),
            None => (path, None),
        };
        let rest = instance.strip_prefix(syslog_name)?;
        let is_instance = rest.is_empty() || rest.starts_with('-');
        is_instance.then_some(Self { at, instance, service, daemon, pid, text })
    }
}

/// The tag and the text of what follows a host name.
fn tag_after_host(rest: &str) -> Option<(&str, &str)> {
    let (word, rest) = rest.trim_start_matches(' ').split_once(' ')?;
    let (tag, text) = if is_priority(word) { rest.split_once(' ')? } else { (word, rest) };
    Some((tag.strip_suffix(':')?, text))
}

fn is_priority(word: &str) -> bool {
    word.split_once('.').is_some_and(|(facility, level)| FACILITIES.contains(&facility) && LEVELS.contains(&level))
}

/// What a container runtime put its own time in front of (`docker logs --timestamps`; Kubernetes also names the stream):
/// the line behind the second time. A host name is no time, so nothing else looks like it.
fn of_container<'a>(
    rest: &'a str,
    times: &mut TimeReader,
    now: Timestamp,
    before: Option<Timestamp>,
) -> Option<&'a str> {
    let streams = ["stdout F ", "stderr F "];
    let line = streams.iter().find_map(|stream| rest.strip_prefix(stream)).unwrap_or(rest);
    times.read(line, now, before).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Option<Line<'_>> {
        let mut times = TimeReader::new(TimeZone::UTC);
        Line::of_file(line, "postfix", &mut times, Timestamp::from_seconds(1_795_000_000), None)
    }

    #[test]
    fn lines_of_others_are_left_alone() {
        for line in [
            "",
            "Nov 21 07:45:38 mx sshd[1]: postfix",
            "Nov 21 07:45:38 mx postfixadmin/web[1]: hello",
            "Nov 21 07:45:38 mx postfix[1]: no daemon",
            "Nov 21 07:45:38 mx postfix/smtpd[x]: what",
            "Nov 21 07:45:38 postfix/smtpd[1]:",
            "postfix/smtpd[1]: no time",
            // metalog leaves the process out, Compose puts a name in front, rsyslog cuts the name at its slash.
            "Nov 21 07:45:38 [postfix/smtpd] a b",
            "mail-1  | Nov 21 07:45:38 mx postfix/smtpd[1]: a b",
            "<22>1 2026-11-21T07:45:38Z mx postfix 7 - - A00001: client=unknown[192.0.2.1]",
            r#"{"SYSLOG_IDENTIFIER":"postfix/smtpd","_PID":"7","MESSAGE":"a b"}"#,
            // Another program's text.
            "Nov 21 07:45:38 mx sshd[1]: Nov 21 07:45:38 mx postfix/smtpd[1]: a",
            "<22>1 2026-11-21T07:45:38Z mx sshd 7 - - 2026-11-21T07:45:38Z mx postfix/smtpd[1]: a",
            "2026-11-21T07:45:38Z mx mail.info mail.info postfix/smtpd[1]: a",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn the_host_may_be_missing_and_names_may_have_parts() {
        for (line, expected) in [
            ("Nov 21 07:45:38 mx postfix/qmgr[12]: a b", ("postfix", None, "qmgr", 12, "a b")),
            ("Nov 21 07:45:38 postfix/qmgr[12]: a b", ("postfix", None, "qmgr", 12, "a b")),
            (
                "2026-11-21T07:45:38Z mx postfix/submission/smtpd[3]: a",
                ("postfix", Some("submission"), "smtpd", 3, "a"),
            ),
            ("Nov 21 07:45:38 mx postfix-out/smtp[3]: a", ("postfix-out", None, "smtp", 3, "a")),
            ("Nov 21 07:45:38 mx postfix/a/b/smtpd: a", ("postfix", Some("a/b"), "smtpd", 0, "a")),
            ("Nov 21 07:45:38 mx mail.info postfix/smtp[3]: a", ("postfix", None, "smtp", 3, "a")),
            ("<22>1 2026-11-21T07:45:38.123456+00:00 mx postfix/smtp 3 - -  a", ("postfix", None, "smtp", 3, "a")),
            (
                r#"1 2026-11-21T07:45:38Z mx postfix/submission/smtpd 3 - [meta sequenceId="1"] a"#,
                ("postfix", Some("submission"), "smtpd", 3, "a"),
            ),
            (
                "2026-11-21T07:45:38.123456789Z stdout F Nov 21 07:45:38 mx postfix/smtp[3]: a",
                ("postfix", None, "smtp", 3, "a"),
            ),
            ("2026-11-21T07:45:38.1Z Nov 21 07:45:38 mx postfix/smtp[3]: a", ("postfix", None, "smtp", 3, "a")),
        ] {
            let line = read(line).unwrap();
            assert_eq!((line.instance, line.service, line.daemon, line.pid, line.text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(tail in "\\PC{0,80}|[a-z/\\[\\]: ]{0,40}") {
            let _ = read(&tail);
            let _ = read(&format!("Nov 21 07:45:38 mx postfix/{tail}"));
        }
    }
}
