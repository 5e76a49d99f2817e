//! `[mail.embedded]`: the mail server that is built in.

use std::net::SocketAddr;

use mailapi_backend_embedded::MaildropSettings;
use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::mirror::mirror;
use super::values::{ByteSize, HumanDuration, Unset};
use super::{ConfigError, at_least_one};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Embedded {
    pub(crate) smtp_listen: Unset<SocketAddr>,
    pub(crate) submission_listen: Unset<SocketAddr>,
    pub(crate) imap_listen: Unset<SocketAddr>,
    maildrop: MaildropKeys,
}

mirror!(
    /// `[mail.embedded.maildrop]`: how messages are kept.
    MaildropKeys of MaildropSettings {
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
        sweep_batch: usize,
    }
);

impl Default for Embedded {
    fn default() -> Self {
        let loopback = |port| Unset(Some(SocketAddr::from(([127, 0, 0, 1], port))));
        Self {
            smtp_listen: loopback(2525),
            submission_listen: loopback(2587),
            imap_listen: loopback(2143),
            maildrop: MaildropKeys::default(),
        }
    }
}

impl Embedded {
    /// How messages are kept. `feed_batch` is the same for whoever writes delivery reports and whoever reads them.
    pub(super) fn maildrop(&self, limits: &Limits, feed_batch: usize) -> MaildropSettings {
        let mut settings = MaildropSettings::default();
        self.maildrop.apply(&mut settings);
        settings.max_message_bytes = limits.max_message_bytes.as_usize();
        settings.feed_batch = feed_batch;
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let keys = &self.maildrop;
        for (key, value) in [
            ("chunk_bytes", keys.chunk_bytes.0),
            ("accepted_batch", keys.accepted_batch as u64),
            ("max_folders", keys.max_folders),
            ("index_batch", keys.index_batch as u64),
            ("index_batch_bytes", keys.index_batch_bytes.0),
            ("sweep_batch", keys.sweep_batch as u64),
        ] {
            at_least_one(&format!("mail.embedded.maildrop.{key}"), value)?;
        }
        Ok(())
    }
}
