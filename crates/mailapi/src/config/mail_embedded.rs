//! `[mail.embedded]`: the mail server that is built in.

use std::net::SocketAddr;

use mailapi_backend_embedded::MaildropSettings;
use serde::{Deserialize, Serialize};

use super::limits::Limits;
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

/// `[mail.embedded.maildrop]`: how messages are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct MaildropKeys {
    chunk_bytes: ByteSize,
    parse_inline_bytes: ByteSize,
    accepted_memory: HumanDuration,
    accepted_batch: usize,
    max_folders: u64,
    max_keywords: usize,
    index_batch: usize,
    index_batch_bytes: ByteSize,
    max_indexed_bytes: ByteSize,
    sweep_batch: usize,
}

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

impl Default for MaildropKeys {
    fn default() -> Self {
        let defaults = MaildropSettings::default();
        Self {
            chunk_bytes: ByteSize(defaults.chunk_bytes as u64),
            parse_inline_bytes: ByteSize(defaults.parse_inline_bytes as u64),
            accepted_memory: HumanDuration(defaults.accepted_memory),
            accepted_batch: defaults.accepted_batch,
            max_folders: defaults.max_folders,
            max_keywords: defaults.max_keywords,
            index_batch: defaults.index_batch,
            index_batch_bytes: ByteSize(defaults.index_batch_bytes as u64),
            max_indexed_bytes: ByteSize(defaults.max_indexed_bytes as u64),
            sweep_batch: defaults.sweep_batch,
        }
    }
}

impl Embedded {
    /// How messages are kept. `feed_batch` is the same for whoever writes delivery reports and whoever reads them.
    pub(super) fn maildrop(&self, limits: &Limits, feed_batch: usize) -> MaildropSettings {
        let keys = &self.maildrop;
        MaildropSettings {
            max_message_bytes: limits.max_message_bytes.as_usize(),
            chunk_bytes: keys.chunk_bytes.as_usize(),
            parse_inline_bytes: keys.parse_inline_bytes.as_usize(),
            queue_lifetime: MaildropSettings::default().queue_lifetime,
            accepted_memory: keys.accepted_memory.0,
            accepted_batch: keys.accepted_batch,
            max_folders: keys.max_folders,
            max_keywords: keys.max_keywords,
            feed_batch,
            index_batch: keys.index_batch,
            index_batch_bytes: keys.index_batch_bytes.as_usize(),
            max_indexed_bytes: keys.max_indexed_bytes.as_usize(),
            sweep_batch: keys.sweep_batch,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_maildrop_agree_on_the_defaults() {
        let defaults = MaildropSettings::default();
        assert_eq!(Embedded::default().maildrop(&Limits::default(), defaults.feed_batch), defaults);
    }
}
