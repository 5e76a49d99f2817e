//! `[limits]`: limits of rates and sizes.

use mailapi_http::RequestLimits;
use mailapi_model::DraftLimits;
use mailapi_service::Settings;

use super::mirror::mirror;
use super::values::{ByteSize, HumanDuration};
use super::{ConfigError, at_least_one, longer_than_nothing};

mirror!(
    /// The section.
    Limits of Settings {
        signups_per_hour: u32,
        default_quota: ByteSize,
        signup_quota: ByteSize,
        pending_domain_lifetime: HumanDuration,
        tokens_per_mailbox: u32,
        messages_per_day: u32,
        recipients_per_day: u32,
        max_message_bytes: ByteSize,
    } with {
        requests_per_minute: u64 = RequestLimits::default().per_minute,
        requests_per_hour: u64 = RequestLimits::default().per_hour,
        max_recipients: usize = DraftLimits::default().max_recipients,
        max_header_bytes: ByteSize = ByteSize(DraftLimits::default().max_header_bytes as u64),
    }
);

impl Limits {
    /// Returns the limits of a send request.
    pub(super) fn draft(&self) -> DraftLimits {
        DraftLimits {
            max_recipients: self.max_recipients,
            max_header_bytes: self.max_header_bytes.as_usize(),
            ..DraftLimits::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("limits.max_recipients", self.max_recipients as u64)?;
        at_least_one("limits.max_message_bytes", self.max_message_bytes.0)?;
        at_least_one("limits.tokens_per_mailbox", self.tokens_per_mailbox.into())?;
        longer_than_nothing("limits.pending_domain_lifetime", self.pending_domain_lifetime)
    }
}
