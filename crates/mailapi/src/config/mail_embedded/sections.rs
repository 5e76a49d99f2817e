//! The sections below `[mail.embedded]`.

use mailapi_backend_embedded::delivery_agent::DeliveryAgentSettings;
use mailapi_backend_embedded::net::ConnectionLimits;
use mailapi_backend_embedded::{ImapSettings, MessageStoreSettings, SmtpSettings};

use crate::config::mirror::mirror;
use crate::config::values::{ByteSize, HumanDuration};
use crate::config::{ConfigError, at_least_one};

mirror!(
    /// `[mail.embedded.smtp]` and `[mail.embedded.submission]`: SMTP sessions.
    SmtpKeys of SmtpSettings {
        max_recipients: usize,
        max_line_bytes: ByteSize,
        max_auth_line_bytes: ByteSize,
        max_errors: u32,
        max_hops: usize,
        max_header_bytes: ByteSize,
        idle_timeout: HumanDuration,
        session_timeout: HumanDuration,
        write_timeout: HumanDuration,
        read_bytes: ByteSize,
    }
);

mirror!(
    /// `[mail.embedded.imap]`: IMAP sessions.
    ImapKeys of ImapSettings {
        plaintext_on_loopback: bool,
        max_connections_per_user: usize,
        max_login_failures: u32,
        failed_login_delay: HumanDuration,
        login_timeout: HumanDuration,
        idle_timeout: HumanDuration,
        keepalive_interval: HumanDuration,
        write_timeout: HumanDuration,
        max_line_bytes: ByteSize,
        max_literal_bytes: ByteSize,
        max_bad_commands: u32,
        max_search_texts: usize,
        fetch_messages: usize,
        fetch_bytes: ByteSize,
        read_bytes: ByteSize,
        write_bytes: ByteSize,
    }
);

mirror!(
    /// `[mail.embedded.connections]`: connections of each listener.
    ConnectionKeys of ConnectionLimits {
        max_connections: usize,
        max_connections_per_client: usize,
        refusal_timeout: HumanDuration,
        accept_pause: HumanDuration,
        last_words: HumanDuration,
    }
);

mirror!(
    /// `[mail.embedded.courier]`: mail to other servers.
    DeliveryAgentKeys of DeliveryAgentSettings {
        port: u16,
        allow_loopback: bool,
        retry_intervals: Vec<HumanDuration>,
        retry_jitter_percent: u32,
        delay_notice_after: HumanDuration,
        max_connections: usize,
        max_connections_per_destination: usize,
        max_messages_per_connection: usize,
        max_recipients: usize,
        max_addresses: usize,
        max_claimed: usize,
        busy_pause: HumanDuration,
        lease: HumanDuration,
        connect_timeout: HumanDuration,
        greeting_timeout: HumanDuration,
        reply_timeout: HumanDuration,
        write_timeout: HumanDuration,
        message_timeout: HumanDuration,
        read_bytes: ByteSize,
        max_returned_message_bytes: ByteSize,
        longest_pause: HumanDuration,
        failure_pause: HumanDuration,
        first_record_pause: HumanDuration,
        longest_record_pause: HumanDuration,
    }
);

mirror!(
    /// `[mail.embedded.maildrop]`: how messages are kept.
    MessageStoreKeys of MessageStoreSettings {
        chunk_bytes: ByteSize,
        inline_bytes: ByteSize,
        inline_entries: u64,
        queue_lifetime: HumanDuration,
        accepted_memory: HumanDuration,
        accepted_batch: usize,
        max_folders: u64,
        max_keywords: usize,
        index_batch: usize,
        index_batch_bytes: ByteSize,
        max_indexed_bytes: ByteSize,
        mailbox_searches: usize,
        sweep_batch: usize,
        chores_rest: u32,
    }
);

/// The most that a wait can be shortened by.
const WHOLE: u32 = 100;

impl SmtpKeys {
    pub(super) fn check(&self, section: &str) -> Result<(), ConfigError> {
        at_least_one(&format!("{section}.max_recipients"), self.max_recipients as u64)?;
        at_least_one(&format!("{section}.max_line_bytes"), self.max_line_bytes.0)?;
        at_least_one(&format!("{section}.read_bytes"), self.read_bytes.0)
    }
}

impl ImapKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.embedded.imap.max_connections_per_user", self.max_connections_per_user as u64)?;
        at_least_one("mail.embedded.imap.fetch_messages", self.fetch_messages as u64)?;
        at_least_one("mail.embedded.imap.fetch_bytes", self.fetch_bytes.0)?;
        at_least_one("mail.embedded.imap.read_bytes", self.read_bytes.0)?;
        at_least_one("mail.embedded.imap.write_bytes", self.write_bytes.0)
    }
}

impl ConnectionKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.embedded.connections.max_connections", self.max_connections as u64)?;
        let per_client = self.max_connections_per_client as u64;
        at_least_one("mail.embedded.connections.max_connections_per_client", per_client)
    }
}

impl DeliveryAgentKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let section = "mail.embedded.courier";
        for (key, value) in [
            ("port", usize::from(self.port)),
            ("max_connections", self.max_connections),
            ("max_connections_per_destination", self.max_connections_per_destination),
            ("max_messages_per_connection", self.max_messages_per_connection),
            ("max_recipients", self.max_recipients),
            ("max_addresses", self.max_addresses),
            ("max_claimed", self.max_claimed),
            ("read_bytes", self.read_bytes.as_usize()),
        ] {
            at_least_one(&format!("{section}.{key}"), value as u64)?;
        }
        if self.retry_intervals.is_empty() {
            return Err(ConfigError::new(format!("{section}.retry_intervals: name at least one")));
        }
        if self.retry_jitter_percent > WHOLE {
            return Err(ConfigError::new(format!("{section}.retry_jitter_percent: must be at most {WHOLE}")));
        }
        Ok(())
    }
}

impl MessageStoreKeys {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("chunk_bytes", self.chunk_bytes.0),
            ("accepted_batch", self.accepted_batch as u64),
            ("max_folders", self.max_folders),
            ("index_batch", self.index_batch as u64),
            ("index_batch_bytes", self.index_batch_bytes.0),
            ("sweep_batch", self.sweep_batch as u64),
        ] {
            at_least_one(&format!("mail.embedded.maildrop.{key}"), value)?;
        }
        Ok(())
    }
}
