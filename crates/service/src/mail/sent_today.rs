//! Counts the mail of each mailbox per day (UTC), over the API and submission together.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::SendLimitReached;
use mailapi_model::{EmailAddress, Grants, Timestamp};

use crate::Service;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The daily limits of a mailbox; zero means unlimited.
#[derive(Debug, Clone, Copy)]
struct DailyLimits {
    messages: u32,
    recipients: u32,
}

/// The counts of this process.
#[derive(Debug, Default)]
pub(crate) struct SentToday(Mutex<Day>);

#[derive(Debug, Default)]
struct Day {
    number: i64,
    mailboxes: HashMap<EmailAddress, Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    messages: u32,
    /// Folded addresses.
    recipients: HashSet<EmailAddress>,
}

impl Service {
    /// Counts a message of a mailbox. Callers without a mailbox have no daily limits.
    pub(crate) fn count_send(&self, grants: &Grants, recipients: &[EmailAddress]) -> Result<(), SendLimitReached> {
        let Some(mailbox) = grants.mailbox() else { return Ok(()) };
        let settings = &self.0.settings;
        let limits = DailyLimits { messages: settings.messages_per_day, recipients: settings.recipients_per_day };
        self.0.sent_today.count(mailbox, recipients, limits, self.0.clock.now())
    }

    /// Reverts the count of a message that turned out to be a repetition.
    pub(crate) fn uncount_send(&self, grants: &Grants) {
        if let Some(mailbox) = grants.mailbox() {
            self.0.sent_today.uncount(mailbox);
        }
    }

    /// Time until the end of the current day.
    pub(crate) fn rest_of_day(&self) -> Duration {
        let rest = DAY_SECONDS - self.0.clock.now().as_seconds().rem_euclid(DAY_SECONDS);
        Duration::from_secs(rest.unsigned_abs())
    }
}

impl SentToday {
    fn count(
        &self,
        mailbox: &EmailAddress,
        recipients: &[EmailAddress],
        limits: DailyLimits,
        now: Timestamp,
    ) -> Result<(), SendLimitReached> {
        let mut day = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = now.as_seconds().div_euclid(DAY_SECONDS);
        if day.number != number {
            *day = Day { number, mailboxes: HashMap::new() };
        }
        let sent = day.mailboxes.entry(mailbox.clone()).or_default();
        if limits.messages > 0 && sent.messages >= limits.messages {
            return Err(SendLimitReached::Messages(limits.messages));
        }
        if limits.recipients > 0 {
            let folded = recipients.iter().cloned().map(EmailAddress::folded);
            let new: HashSet<_> = folded.filter(|recipient| !sent.recipients.contains(recipient)).collect();
            if sent.recipients.len() + new.len() > limits.recipients as usize {
                return Err(SendLimitReached::Recipients(limits.recipients));
            }
            // Both limits hold now, so a rejected message has counted nothing.
            sent.recipients.extend(new);
        }
        sent.messages = sent.messages.saturating_add(1);
        Ok(())
    }

    fn uncount(&self, mailbox: &EmailAddress) {
        let mut day = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = day.mailboxes.get_mut(mailbox) {
            sent.messages = sent.messages.saturating_sub(1);
        }
    }
}
