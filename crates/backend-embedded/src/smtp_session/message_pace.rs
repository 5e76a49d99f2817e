//! The lowest rate of a message, so that a slow client does not keep its room for the whole session.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes that prolong the time of a message by one second, as in Postfix (`smtpd_min_data_rate`).
const LEAST_BYTES_A_SECOND: u64 = 500;

/// When a message began, and the bytes read since.
#[derive(Debug, Default)]
pub(super) struct MessagePace {
    begun: Option<(Instant, u64)>,
}

impl MessagePace {
    /// Returns when the next bytes of a message are due; `None` between messages. A message has this time from its
    /// beginning, and more with each byte.
    pub(super) fn due(&mut self, is_receiving: bool, time: Duration) -> Option<Instant> {
        if !is_receiving {
            self.begun = None;
            return None;
        }
        let (begun, bytes) = *self.begun.get_or_insert_with(|| (Instant::now(), 0));
        Some(begun + time + Duration::from_secs(bytes / LEAST_BYTES_A_SECOND))
    }

    pub(super) fn read(&mut self, more: usize) {
        if let Some((_, bytes)) = &mut self.begun {
            *bytes += more as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TIME: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn a_message_has_more_time_with_its_bytes() {
        let (mut pace, begun) = (MessagePace::default(), Instant::now());
        assert_eq!(pace.due(false, TIME), None);
        pace.read(1_000_000);
        assert_eq!(pace.due(true, TIME), Some(begun + TIME));
        pace.read(1_499);
        advance(Duration::from_secs(200)).await;
        assert_eq!(pace.due(true, TIME), Some(begun + TIME + Duration::from_secs(2)));
        assert_eq!(pace.due(false, TIME), None);
        assert_eq!(pace.due(true, TIME), Some(begun + Duration::from_secs(500)));
    }
}
