//! The sections of sizes and times.

use std::path::Path;

use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::mailboxes::MailboxSettings;
use mailapi_backend_external::search_index::{IndexUse, SearchSettings};
use mailapi_backend_external::smtp_pool::SmtpSettings;
use mailapi_model::Secret;
use serde::{Deserialize, Serialize};

use crate::config::mirror::mirror;
use crate::config::values::{ByteSize, HumanDuration};
use crate::config::{ConfigError, at_least_one};

mirror!(
    /// `[mail.external.smtp.pool]`: connections to the SMTP server.
    SmtpPoolKeys of SmtpSettings as (SmtpSettings::new("", 0)) {
        max_connections: usize,
        idle_lifetime: HumanDuration,
        connect_timeout: HumanDuration,
        command_timeout: HumanDuration,
        data_timeout: HumanDuration,
        wait_timeout: HumanDuration,
        failures_until_pause: u32,
        pause: HumanDuration,
        max_pause: HumanDuration,
    }
);

mirror!(
    /// `[mail.external.imap.pool]`: connections to the IMAP server.
    ImapPoolKeys of ImapSettings as (ImapSettings::new("", 0, "", Secret::new(String::new()))) {
        max_connections: usize,
        max_connections_per_mailbox: usize,
        warm_connections: usize,
        idle_lifetime: HumanDuration,
        reopen_after: HumanDuration,
        connect_timeout: HumanDuration,
        login_timeout: HumanDuration,
        silence_timeout: HumanDuration,
        wait_timeout: HumanDuration,
        failures_until_pause: u32,
        pause: HumanDuration,
        max_pause: HumanDuration,
        refused_pause: HumanDuration,
        unknown_mailbox_pause: HumanDuration,
        unknown_mailboxes: u64,
        read_octets: ByteSize,
    }
);

mirror!(
    /// `[mail.external.mailboxes]`: how much of messages is fetched and remembered.
    MailboxKeys of MailboxSettings {
        whole_message_octets: ByteSize,
        doubtful_message_octets: ByteSize,
        body_octets: ByteSize,
        header_octets: ByteSize,
        summary_octets: ByteSize,
        sample_octets: ByteSize,
        summary_cache_bytes: ByteSize,
        exact_size_cache_bytes: ByteSize,
        html_search_messages: u32,
        html_search_octets: ByteSize,
        uids_per_command: usize,
    }
);

mirror!(
    /// `[mail.external.search]`: an index of our own.
    SearchKeys of SearchSettings as (SearchSettings::new("")) {
        max_bytes: ByteSize,
        forget_after: HumanDuration,
        evicted_pause: HumanDuration,
        catch_up_messages: u64,
        batch_messages: usize,
        batch_bytes: ByteSize,
        max_indexed_bytes: ByteSize,
        rest: u32,
        max_waiting: usize,
        max_open: usize,
        connections: usize,
        wait_timeout: HumanDuration,
        search_timeout: HumanDuration,
        busy_timeout: HumanDuration,
        page_cache_bytes: ByteSize,
        tidy_interval: HumanDuration,
        tidy_mailboxes: usize,
    } with {
        index: IndexName = IndexName::Auto,
    }
);

/// When searches are answered from the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IndexName {
    /// Where the IMAP server has none.
    Auto,
    On,
    Off,
}

impl SearchKeys {
    /// The index's own directory in the data directory.
    const DIRECTORY: &str = "search-index";

    pub(super) fn settings(&self, data_dir: &Path) -> SearchSettings {
        let mut settings = SearchSettings::new(data_dir.join(Self::DIRECTORY));
        self.apply(&mut settings);
        settings.index = match self.index {
            IndexName::Auto => IndexUse::Auto,
            IndexName::On => IndexUse::On,
            IndexName::Off => IndexUse::Off,
        };
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.external.search.batch_messages", self.batch_messages as u64)?;
        at_least_one("mail.external.search.batch_bytes", self.batch_bytes.0)?;
        at_least_one("mail.external.search.max_open", self.max_open as u64)?;
        at_least_one("mail.external.search.connections", self.connections as u64)
    }
}

impl SmtpPoolKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.external.smtp.pool.max_connections", self.max_connections as u64)
    }
}

impl ImapPoolKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let (all, each) = (self.max_connections, self.max_connections_per_mailbox);
        at_least_one("mail.external.imap.pool.max_connections", all as u64)?;
        at_least_one("mail.external.imap.pool.max_connections_per_mailbox", each as u64)?;
        at_least_one("mail.external.imap.pool.read_octets", self.read_octets.0)
    }
}

impl MailboxKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.external.mailboxes.uids_per_command", self.uids_per_command as u64)?;
        at_least_one("mail.external.mailboxes.sample_octets", self.sample_octets.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_whose_steps_would_come_no_further_is_refused() {
        let by_default = SearchKeys::default();
        assert!(SearchKeys { batch_bytes: ByteSize(0), ..by_default.clone() }.check().is_err());
        assert!(SearchKeys { batch_messages: 0, ..by_default.clone() }.check().is_err());
        assert!(by_default.check().is_ok());
    }
}
