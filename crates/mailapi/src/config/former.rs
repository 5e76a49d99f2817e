//! Settings of the first configuration file that were renamed or are fixed now. They are accepted for one version
//! in files and environments, with a warning for each.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Fate of a former setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Former {
    /// The setting was renamed to this.
    Moved(&'static str),
    /// The value is a constant now.
    Removed,
}

/// The value of a former setting in a file.
pub(super) struct FormerValue<'a> {
    /// Former name.
    pub(super) key: String,
    /// Fate of the setting.
    pub(super) former: Former,
    /// Position of the key, in bytes.
    pub(super) span: Range<usize>,
    value: Spanned<DeValue<'a>>,
}

/// Looks a former setting up; `None` for a name that never existed, or is in use.
pub(super) fn find(key: &str) -> Option<Former> {
    if let Some((_, new)) = MOVED.iter().find(|(old, _)| *old == key) {
        return Some(Former::Moved(new));
    }
    let (section, name) = key.rsplit_once('.')?;
    let mut removed = REMOVED.iter().filter(|(of, _)| *of == section);
    removed.any(|(_, names)| names.contains(&name)).then_some(Former::Removed)
}

/// Returns whether this section had former settings.
pub(super) fn is_section(name: &str) -> bool {
    let is_below =
        |section: &str| section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let moved = MOVED.iter().filter_map(|(old, _)| old.rsplit_once('.'));
    moved.map(|(section, _)| section).chain(REMOVED.iter().map(|(section, _)| *section)).any(is_below)
}

/// Removes the former settings from a file. Returns them in the order of their names.
pub(super) fn take<'a>(file: &mut DeTable<'a>) -> Vec<FormerValue<'a>> {
    let mut taken = Vec::new();
    take_from(file, "", &mut taken);
    taken
}

fn take_from<'a>(table: &mut DeTable<'a>, section: &str, taken: &mut Vec<FormerValue<'a>>) {
    let names: Vec<_> = table.keys().map(|name| (name.get_ref().to_string(), name.span())).collect();
    for (name, span) in names {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        match find(&key) {
            Some(former) => {
                let value = table.remove(name.as_str());
                taken.extend(value.map(|value| FormerValue { key, former, span, value }));
            }
            None => {
                if let Some(DeValue::Table(inner)) = table.get_mut(name.as_str()).map(Spanned::get_mut) {
                    take_from(inner, &key, taken);
                }
            }
        }
    }
}

impl<'a> FormerValue<'a> {
    /// Stores the value under the present name of the setting. A value that the file already has under that name
    /// takes precedence.
    pub(super) fn put_into(self, file: &mut DeTable<'a>) {
        let Former::Moved(new) = self.former else { return };
        let span = self.value.span();
        let (sections, name) = new.rsplit_once('.').unwrap_or(("", new));
        let mut table = file;
        for section in sections.split('.').filter(|section| !section.is_empty()) {
            let fresh = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
            let inner = table.entry(Spanned::new(span.clone(), section.into())).or_insert_with(fresh);
            // A value other than a table is rejected later, with its line.
            let DeValue::Table(inner) = inner.get_mut() else { return };
            table = inner;
        }
        table.entry(Spanned::new(span, name.into())).or_insert(self.value);
    }
}

impl Former {
    /// Returns the warning for a setting at `place`; `name` writes a key as that place does.
    pub(super) fn warning(self, place: &str, key: &str, name: impl Fn(&str) -> String) -> String {
        let old = name(key);
        match self {
            Self::Moved(new) => {
                let new = name(new);
                format!("{place}{old} is {new} now; the next version refuses the former name")
            }
            Self::Removed => {
                format!("{place}{old} is ignored: it is a constant now; the next version refuses the name")
            }
        }
    }
}

/// Renamed settings, with their present names.
pub(super) const MOVED: &[(&str, &str)] = &[
    ("shutdown_grace", "advanced.shutdown_grace"),
    ("http.max_connections", "advanced.http.max_connections"),
    ("http.trusted_proxies", "trusted_proxies"),
    ("mail.embedded.tls_cert", "tls.cert"),
    ("mail.embedded.tls_key", "tls.key"),
    ("auth.password_rounds", "advanced.auth.password_rounds"),
    ("database.postgres.connections", "advanced.postgres.connections"),
    ("spool.max_disk_bytes", "advanced.buffer.max_disk_bytes"),
    ("housekeeping.recovery_interval", "advanced.sending.recovery_interval"),
    ("mail.embedded.courier.retry_intervals", "advanced.delivery.retry_intervals"),
    ("mail.embedded.courier.max_connections", "advanced.delivery.max_connections"),
    ("mail.embedded.courier.max_connections_per_destination", "advanced.delivery.max_connections_per_destination"),
    ("mail.embedded.maildrop.queue_lifetime", "advanced.delivery.queue_lifetime"),
    ("mail.embedded.connections.max_connections", "advanced.listeners.max_connections"),
    ("mail.embedded.connections.max_connections_per_client", "advanced.listeners.max_connections_per_client"),
    ("mail.embedded.imap.max_connections_per_user", "advanced.imap.max_connections_per_user"),
    ("mail.external.smtp.pool.max_connections", "advanced.external_smtp.max_connections"),
    ("mail.external.imap.pool.max_connections", "advanced.external_imap.max_connections"),
    ("mail.external.imap.pool.max_connections_per_mailbox", "advanced.external_imap.max_connections_per_mailbox"),
    ("mail.external.log.limits.settle_time", "advanced.external_log.settle_time"),
    ("mail.external.log.limits.reception_time", "advanced.external_log.reception_time"),
    ("mail.external.log.limits.retry_time", "advanced.external_log.retry_time"),
    ("mail.external.search.index", "advanced.external_search.index"),
    ("mail.external.search.max_bytes", "advanced.external_search.max_bytes"),
];

/// Fixed settings, by section.
#[rustfmt::skip] // One name a line would be 207 lines.
pub(super) const REMOVED: &[(&str, &[&str])] = &[
    ("http", &[
        "max_small_request_bytes", "body_pause", "body_timeout", "discard_timeout", "discard_bytes",
        "long_work_bytes", "long_string_bytes", "kept_page_bytes", "health_timeout", "health_cache",
        "max_request_bytes_in_flight", "header_timeout"
    ]),
    ("log", &["gather_for", "gather_bytes"]),
    ("advanced.auth", &["cached_callers", "concurrent_hashes"]),
    ("advanced.buffer", &["max_inbound_disk_bytes", "max_memory_bytes"]),
    ("advanced.delivery", &["delay_notice_after"]),
    ("advanced.external_bounces", &["poll_interval"]),
    ("advanced.external_log", &["poll_interval"]),
    ("advanced.external_mailboxes", &["summary_cache_bytes"]),
    ("advanced.http", &["header_timeout", "health_cache", "max_in_flight_bytes"]),
    ("advanced.imap", &["plaintext_on_loopback"]),
    ("database.sqlite", &[
        "group_jobs", "group_time", "queue_jobs", "read_connections", "scan_connections", "search_connections",
        "search_timeout", "busy_timeout", "foreign_check", "statement_cache", "writer_cache_kib",
        "reader_cache_kib", "search_cache_kib", "mmap_bytes", "checkpoint_pages", "wal_limit_bytes"
    ]),
    ("database.postgres", &[
        "scan_connections", "pool_timeout", "connect_timeout", "statement_timeout", "scan_timeout",
        "answer_grace", "attempts", "statement_cache", "keepalive", "listen_retry"
    ]),
    ("auth", &["concurrent_hashes", "ended_sessions_kept", "login_addresses"]),
    ("limits", &["cached_callers", "cached_domains", "max_attachments", "max_headers", "store"]),
    ("spool", &["max_inbound_disk_bytes", "max_memory_bytes", "write_bytes"]),
    ("mail", &[
        "idempotency_lifetime", "idempotency_wait", "pending_grace", "bounce_lifetime", "bounce_members",
        "feed_batch", "quota_patience"
    ]),
    ("mail.embedded", &["max_returned_header_bytes", "max_message_memory_bytes"]),
    ("mail.embedded.smtp", &[
        "max_recipients", "max_line_bytes", "max_auth_line_bytes", "max_errors", "max_hops", "max_header_bytes",
        "idle_timeout", "session_timeout", "write_timeout", "read_bytes"
    ]),
    ("mail.embedded.submission", &[
        "max_recipients", "max_line_bytes", "max_auth_line_bytes", "max_errors", "max_hops", "max_header_bytes",
        "idle_timeout", "session_timeout", "write_timeout", "read_bytes"
    ]),
    ("mail.embedded.imap", &[
        "max_login_failures", "failed_login_delay", "login_timeout", "idle_timeout", "keepalive_interval",
        "write_timeout", "max_line_bytes", "max_literal_bytes", "max_bad_commands", "max_search_texts",
        "fetch_messages", "fetch_bytes", "read_bytes", "write_bytes", "plaintext_on_loopback"
    ]),
    ("mail.embedded.connections", &["refusal_timeout", "accept_pause", "last_words"]),
    ("mail.embedded.courier", &[
        "port", "allow_loopback", "retry_jitter_percent", "max_messages_per_connection", "max_recipients",
        "max_addresses", "max_claimed", "busy_pause", "lease", "connect_timeout", "greeting_timeout",
        "reply_timeout", "write_timeout", "message_timeout", "read_bytes", "max_returned_message_bytes",
        "longest_pause", "failure_pause", "first_record_pause", "longest_record_pause", "delay_notice_after"
    ]),
    ("mail.embedded.maildrop", &[
        "chunk_bytes", "inline_bytes", "inline_entries", "accepted_memory", "accepted_batch", "max_folders",
        "max_keywords", "index_batch", "index_batch_bytes", "max_indexed_bytes", "mailbox_searches",
        "sweep_batch", "chores_rest"
    ]),
    ("mail.external.smtp.pool", &[
        "idle_lifetime", "connect_timeout", "command_timeout", "data_timeout", "wait_timeout",
        "failures_until_pause", "pause", "max_pause"
    ]),
    ("mail.external.imap.pool", &[
        "warm_connections", "idle_lifetime", "reopen_after", "connect_timeout", "login_timeout",
        "silence_timeout", "wait_timeout", "failures_until_pause", "pause", "max_pause", "refused_pause",
        "unknown_mailbox_pause", "unknown_mailboxes", "read_octets"
    ]),
    ("mail.external.log.limits", &[
        "gather_time", "max_batch_lines", "save_every_octets", "save_interval", "rebuild_octets", "find_octets",
        "postqueue_timeout", "postqueue_octets", "index_lifetime", "index_file_octets", "max_index_files",
        "max_gaps", "max_line_octets", "poll_interval"
    ]),
    ("mail.external.bounces", &["folder"]),
    ("mail.external.bounces.limits", &[
        "batch_messages", "uid_range", "message_octets", "message_tries", "loss_memory", "response_characters",
        "poll_interval"
    ]),
    ("mail.external.users", &["sync_interval"]),
    ("mail.external.users.limits", &["connections", "connect_timeout", "statement_timeout", "page", "forget_after"]),
    ("mail.external.doveadm", &["connect_timeout", "timeout"]),
    ("mail.external.mailboxes", &[
        "whole_message_octets", "doubtful_message_octets", "body_octets", "header_octets", "summary_octets",
        "sample_octets", "summary_cache_bytes", "exact_size_cache_bytes", "html_search_messages", "html_search_octets",
        "uids_per_command"
    ]),
    ("mail.external.search", &[
        "forget_after", "evicted_pause", "catch_up_messages", "batch_messages", "batch_bytes",
        "max_indexed_bytes", "rest", "max_waiting", "max_open", "connections", "wait_timeout", "search_timeout",
        "busy_timeout", "page_cache_bytes", "tidy_interval", "tidy_mailboxes"
    ]),
    ("dns", &["timeout", "retries", "cached_answers"]),
    ("stats", &[
        "default_period", "max_days", "max_hours", "max_domains", "ranked", "max_unwritten_inbound",
        "roll_up_pause", "roll_up_changes", "roll_up_groups"
    ]),
    ("housekeeping", &["last_used_interval", "tidy_interval", "retry_pause"]),
];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use toml::{Table, Value};

    use super::super::Config;
    use super::*;

    /// The settings of the first configuration file.
    const FIRST: &str = include_str!("fixtures/first-settings.toml");

    /// Returns every key of the first file with its default.
    fn first_settings() -> Vec<(String, Value)> {
        fn collect(table: &Table, section: &str, settings: &mut Vec<(String, Value)>) {
            for (name, value) in table {
                let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
                match value {
                    Value::Table(inner) => collect(inner, &key, settings),
                    value => settings.push((key, value.clone())),
                }
            }
        }
        let mut settings = Vec::new();
        collect(&FIRST.parse().unwrap(), "", &mut settings);
        settings
    }

    /// Returns a different value of the same kind, so that a lost value shows.
    fn another(key: &str, value: &Value) -> Value {
        match value {
            Value::Integer(number) => Value::Integer(number + 1),
            Value::Boolean(is_on) => Value::Boolean(!is_on),
            Value::Array(_) if key.ends_with("trusted_proxies") => {
                Value::Array(vec![Value::String("10.0.0.7/32".into())])
            }
            Value::Array(items) if items.is_empty() => value.clone(),
            Value::Array(_) => Value::Array(vec![Value::String("17m".to_owned())]),
            Value::String(_) if key.contains(".tls_") => Value::String("a.pem".to_owned()),
            Value::String(_) if key.ends_with("search.index") => Value::String("on".to_owned()),
            Value::String(text) if text.ends_with('B') => Value::String("17MiB".to_owned()),
            Value::String(text) if text.ends_with(['s', 'm', 'h', 'd']) && text.starts_with(char::is_numeric) => {
                Value::String("17m".to_owned())
            }
            value => value.clone(),
        }
    }

    fn of_file(key: &str, value: &Value) -> Config {
        let text = format!("{key} = {value}\n");
        Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn of_variable(key: &str, value: &Value) -> Config {
        let name = OsString::from(format!("MAILAPI_{}", key.replace('.', "__").to_ascii_uppercase()));
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            value => value.to_string(),
        };
        Config::from_layers(None, &[(name, value.into())]).unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    #[test]
    fn every_first_setting_is_accepted_from_file_and_environment() {
        let settings = first_settings();
        assert_eq!(settings.len(), 327);
        for (key, default) in settings {
            let value = another(&key, &default);
            for read in [of_file(&key, &value), of_variable(&key, &value)] {
                let (expected, count) = match find(&key) {
                    None => (of_file(&key, &value), 0),
                    Some(Former::Moved(new)) => (of_file(new, &value), 1),
                    Some(Former::Removed) => (Config::default(), 1),
                };
                assert_eq!(read.to_toml(), expected.to_toml(), "{key}");
                assert_eq!(read.warnings().len(), count, "{key}: {:?}", read.warnings());
            }
            let is_moved = matches!(find(&key), Some(Former::Moved(_)));
            let changes = of_file(&key, &value).to_toml() != Config::default().to_toml();
            assert!(!is_moved || changes, "{key}: the test sets its default");
        }
    }

    #[test]
    fn the_whole_first_file_means_the_defaults() {
        let config = Config::from_layers(Some(("mailapi.toml", FIRST)), &[]).unwrap();
        // The one default that is another today.
        let expected = of_file("advanced.http.max_connections", &Value::Integer(10_000));
        assert_eq!(config.to_toml(), expected.to_toml());
        assert_eq!(config.check(), Ok(()));
        let former = first_settings().iter().filter(|(key, _)| find(key).is_some()).count();
        assert_eq!(config.warnings().len(), former);
    }

    #[test]
    fn a_warning_names_the_place_and_the_present_name() {
        let text = "[limits]\nmax_recipients = 5\n[spool]\nmax_disk_bytes = \"5GiB\"\nwrite_bytes = 1\n";
        let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
        assert_eq!(
            config.warnings(),
            [
                "mailapi.toml:4: spool.max_disk_bytes is advanced.buffer.max_disk_bytes now; the next version refuses the \
                 former name",
                "mailapi.toml:5: spool.write_bytes is ignored: it is a constant now; the next version refuses the name",
            ]
        );
        let variable = ("MAILAPI_SHUTDOWN_GRACE".into(), "5s".into());
        assert_eq!(
            Config::from_layers(None, &[variable]).unwrap().warnings(),
            [
                "environment variable MAILAPI_SHUTDOWN_GRACE is MAILAPI_ADVANCED__SHUTDOWN_GRACE now; the next version refuses \
              the former name"
            ]
        );
    }

    #[test]
    fn a_present_name_replaces_a_former_one() {
        let grace = |config: &Config| config.advanced.shutdown_grace.to_string();
        let text = "shutdown_grace = \"1s\"\n[advanced]\nshutdown_grace = \"2s\"\n";
        assert_eq!(grace(&Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap()), "2s");
        let present = ("MAILAPI_ADVANCED__SHUTDOWN_GRACE".into(), "3s".into());
        let former = ("MAILAPI_SHUTDOWN_GRACE".into(), "4s".into());
        for environment in [[present.clone(), former.clone()], [former.clone(), present]] {
            assert_eq!(grace(&Config::from_layers(Some(("mailapi.toml", text)), &environment).unwrap()), "3s");
        }
        // The environment overrides the file, whichever names they use.
        assert_eq!(grace(&Config::from_layers(Some(("mailapi.toml", text)), &[former]).unwrap()), "4s");
    }

    #[test]
    fn a_wrong_value_of_a_former_setting_has_its_line() {
        let error = |text: &str| Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap_err().to_string();
        let wrong = error("[spool]\nmax_disk_bytes = \"much\"\n");
        assert!(wrong.starts_with("mailapi.toml:2: advanced.buffer.max_disk_bytes: "), "{wrong}");
        let unknown = error("[mail.embedded.courier]\nlease = \"1h\"\nleese = \"1h\"\n");
        assert!(unknown.starts_with("mailapi.toml:3: unknown key `mail.embedded.courier.leese`"), "{unknown}");
        assert!(error("advanced = 3\nshutdown_grace = \"1s\"\n").starts_with("mailapi.toml:1: advanced: "));
    }
}
