//! Which daemon of which Postfix instance wrote a line.

use mailapi_model::Timestamp;

use super::timestamp::TimeReader;

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
        let (at, rest) = times.read(line, now, before)?;
        let (first, after) = rest.split_once(' ')?;
        // Some templates leave the host out.
        let (tag, text) = match first.strip_suffix(':') {
            Some(tag) => (tag, after),
            None => {
                let (tag, text) = after.trim_start_matches(' ').split_once(' ')?;
                (tag.strip_suffix(':')?, text)
            }
        };
        Self::of_tag(at, tag, text, syslog_name)
    }

    /// A record whose tag (`postfix/smtpd[123]`) is known already.
    pub(super) fn of_tag(at: Timestamp, tag: &'a str, text: &'a str, syslog_name: &str) -> Option<Self> {
        let (name, pid) = match tag.strip_suffix(']').and_then(|tag| tag.rsplit_once('[')) {
            Some((name, pid)) => (name, pid.parse().ok()?),
            None => (tag, 0),
        };
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
