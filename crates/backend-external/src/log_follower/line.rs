//! Parses which daemon of which Postfix instance wrote a line.

use mailapi_model::Timestamp;

use super::rfc5424;
use super::timestamp::{TimeReader, without_priority};

/// The facilities and levels that busybox's syslogd writes before a tag: `mail.info`.
const FACILITIES: [&str; 12] = [
    "mail", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7", "daemon", "user", "syslog",
];
const LEVELS: [&str; 10] = ["emerg", "panic", "alert", "crit", "err", "error", "warn", "warning", "notice", "info"];

const JOURNALD: &str = "systemd-journald";
const RSYSLOGD: &str = "rsyslogd";
/// Programs whose reports of dropped lines are understood.
const LOGGERS: [&str; 2] = [JOURNALD, RSYSLOGD];

/// A record of the log before its text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The time of the line.
    pub(super) at: Timestamp,
    /// The Postfix instance: `postfix`, or another name such as `postfix-out`. Queue ids are unique within one
    /// instance only.
    pub(super) instance: &'a str,
    /// The service name in master.cf (`submission` in `postfix/submission/smtpd`).
    pub(super) service: Option<&'a str>,
    /// The program: `smtpd`, `qmgr`, …
    pub(super) daemon: &'a str,
    /// The process id; 0 if missing.
    pub(super) pid: u32,
    /// The message text.
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line of a log file. Returns `None` for lines of other programs.
    pub(super) fn of_file(
        line: &'a str,
        syslog_name: &str,
        times: &mut TimeReader,
        now: Timestamp,
        before: Option<Timestamp>,
    ) -> Option<Self> {
        // Parsing the time is expensive, and most lines of a shared log are from other programs.
        if !line.contains(syslog_name) {
            return None;
        }
        let written = split(line, times, now, before)?;
        Self::of_program(written, syslog_name)
    }

    /// Builds a line from a record whose tag (`postfix/smtpd[123]`) is separate.
    pub(super) fn of_tag(at: Timestamp, tag: &'a str, text: &'a str, syslog_name: &str) -> Option<Self> {
        let (program, pid) = program_of(tag)?;
        Self::of_program(Written { at, program, pid, text }, syslog_name)
    }

    fn of_program(written: Written<'a>, syslog_name: &str) -> Option<Self> {
        let Written { at, program, pid, text } = written;
        let (path, daemon) = program.rsplit_once('/')?;
        let (instance, service) = match path.split_once('/') {
            Some((instance, service)) => (instance, Some(service)),
            None => (path, None),
        };
        let rest = instance.strip_prefix(syslog_name)?;
        let is_instance = rest.is_empty() || rest.starts_with('-');
        is_instance.then_some(Self { at, instance, service, daemon, pid, text })
    }
}

/// A line of any program.
struct Written<'a> {
    at: Timestamp,
    program: &'a str,
    pid: u32,
    text: &'a str,
}

fn split<'a>(line: &'a str, times: &mut TimeReader, now: Timestamp, before: Option<Timestamp>) -> Option<Written<'a>> {
    let line = without_priority(line);
    if let Some(line) = rfc5424::from_time(line) {
        let (at, rest) = times.read(line, now, before)?;
        let rfc5424::Record { program, process, text } = rfc5424::record(rest)?;
        return Some(Written { at, program, pid: process.unwrap_or(0), text });
    }
    let (at, rest) = times.read(line, now, before)?;
    let rest = of_container(rest, times, now, before).unwrap_or(rest);
    let (first, after) = rest.split_once(' ')?;
    // Some templates omit the host.
    let (tag, text) = match first.strip_suffix(':') {
        Some(tag) => (tag, after),
        None => tag_after_host(after)?,
    };
    let (program, pid) = program_of(tag)?;
    Some(Written { at, program, pid, text })
}

/// Splits `postfix/smtpd[123]` into program and process id. Syslog permits a tag without a process.
fn program_of(tag: &str) -> Option<(&str, u32)> {
    match tag.strip_suffix(']').and_then(|tag| tag.rsplit_once('[')) {
        Some((name, pid)) => Some((name, pid.parse().ok()?)),
        None => Some((tag, 0)),
    }
}

/// Returns the tag and the text after a host name.
fn tag_after_host(rest: &str) -> Option<(&str, &str)> {
    let (word, rest) = rest.trim_start_matches(' ').split_once(' ')?;
    let (tag, text) = if is_priority(word) { rest.split_once(' ')? } else { (word, rest) };
    Some((tag.strip_suffix(':')?, text))
}

fn is_priority(word: &str) -> bool {
    word.split_once('.').is_some_and(|(facility, level)| FACILITIES.contains(&facility) && LEVELS.contains(&level))
}

/// Removes the timestamp that a container runtime adds (`docker logs --timestamps`; Kubernetes also adds the stream).
/// Any other line has a host name here, which cannot be parsed as a time.
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

/// Whether a line of a log file is a logging daemon's report of dropped lines.
pub(super) fn reports_loss(
    line: &str,
    syslog_name: &str,
    times: &mut TimeReader,
    now: Timestamp,
    before: Option<Timestamp>,
) -> bool {
    if !LOGGERS.iter().any(|logger| line.contains(logger)) {
        return false;
    }
    split(line, times, now, before).is_some_and(|Written { program, text, .. }| match program {
        JOURNALD => journald_reports_loss(text, syslog_name),
        RSYSLOGD => rsyslogd_reports_loss(text),
        _ => false,
    })
}

/// Whether journald reports dropped entries of Postfix. Its rate limit may apply to a unit, or to all programs that
/// log through a syslog daemon.
pub(super) fn journald_reports_loss(text: &str, syslog_name: &str) -> bool {
    let counted = |text: &str, then: &str| {
        let (count, rest) = text.split_once(' ')?;
        count.parse::<u64>().ok().and_then(|_| rest.strip_prefix(then).map(str::to_owned))
    };
    if let Some(unit) = text.strip_prefix("Suppressed ").and_then(|rest| counted(rest, "messages from ")) {
        return unit.contains("postfix") || unit.contains(syslog_name);
    }
    let forwarding = text.strip_prefix("Forwarding to syslog missed ");
    forwarding.and_then(|rest| counted(rest, "messages")).is_some()
}

/// Whether rsyslogd reports dropped lines: `imuxsock[pid 7]: 12 messages lost due to rate-limiting (…)`; before
/// version 8 `imuxsock lost 12 messages from pid 7 due to rate-limiting`.
fn rsyslogd_reports_loss(text: &str) -> bool {
    let is_count = |text: &str| text.parse::<u64>().is_ok();
    let is_input = |text: &str| text.starts_with("im");
    if let Some((before, _)) = text.split_once(" messages lost due to rate-limiting") {
        return before.rsplit_once(": ").is_some_and(|(input, count)| is_input(input) && is_count(count));
    }
    let Some((input, rest)) = text.split_once(" lost ") else { return false };
    let Some((count, rest)) = rest.split_once(" messages from pid ") else { return false };
    let pid = rest.strip_suffix(" due to rate-limiting");
    is_input(input) && is_count(count) && pid.is_some_and(is_count)
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
            // metalog omits the process, Compose adds a prefix, rsyslog truncates the name at its slash.
            "Nov 21 07:45:38 [postfix/smtpd] a b",
            "mail-1  | Nov 21 07:45:38 mx postfix/smtpd[1]: a b",
            "<22>1 2026-11-21T07:45:38Z mx postfix 7 - - A00001: client=unknown[192.0.2.1]",
            r#"{"SYSLOG_IDENTIFIER":"postfix/smtpd","_PID":"7","MESSAGE":"a b"}"#,
            // A line quoted in another program's text.
            "Nov 21 07:45:38 mx sshd[1]: Nov 21 07:45:38 mx postfix/smtpd[1]: a",
            "<22>1 2026-11-21T07:45:38Z mx sshd 7 - - 2026-11-21T07:45:38Z mx postfix/smtpd[1]: a",
            "2026-11-21T07:45:38Z mx mail.info mail.info postfix/smtpd[1]: a",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn only_a_logger_reports_lost_lines_and_only_in_its_own_words() {
        let reports = |line: &str| {
            let mut times = TimeReader::new(TimeZone::UTC);
            reports_loss(line, "postfix", &mut times, Timestamp::from_seconds(1_795_000_000), None)
        };
        for line in [
            "mx systemd-journald[1]: Suppressed 17 messages from postfix@-.service",
            "mx systemd-journald[1]: Suppressed 17 messages from /system.slice/system-postfix.slice/postfix@-.service",
            "mx systemd-journald[1]: Forwarding to syslog missed 3 messages.",
            "mx rsyslogd: imuxsock[pid 7]: 12 messages lost due to rate-limiting (200 allowed within 5 seconds)",
            "mx rsyslogd[9]: imjournal: 12 messages lost due to rate-limiting",
            "rsyslogd: imuxsock lost 12 messages from pid 7 due to rate-limiting",
        ] {
            assert!(reports(&format!("Nov 21 07:45:38 {line}")), "{line}");
        }
        for line in [
            "mx dovecot: imap-login: Login aborted: user=<Suppressed 5 messages from postfix>, rip=192.0.2.1",
            "mx dovecot: imap-login: user=<x rsyslogd: imuxsock: 5 messages lost due to rate-limiting (postfix)>",
            "mx postfix/smtpd[1]: warning: Suppressed 5 messages from postfix, rsyslogd, systemd-journald",
            "mx postfix/cleanup[1]: 4jW: message-id=<rsyslogd: imuxsock[pid 7]: 12 messages lost due to rate-limiting>",
            "mx nginx: systemd-journald[1]: Suppressed 17 messages from postfix@-.service",
            "mx systemd-journald[1]: Suppressed 17 messages from ssh.service",
            "mx systemd-journald[1]: Suppressed all messages from postfix",
            "mx rsyslogd: action 'postfix' suspended, Suppressed 5 messages",
            "mx rsyslogd: said postfix: 12 messages lost due to rate-limiting",
        ] {
            assert!(!reports(&format!("Nov 21 07:45:38 {line}")), "{line}");
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
