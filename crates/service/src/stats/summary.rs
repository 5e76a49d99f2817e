//! The delivery rate.

use mailapi_store::SentCounts;

/// The percentage of delivered mail among mail with a final result, with two decimals. 0.0 if there is none.
///
/// The rate is `delivered / (delivered + bounced + rejected)`.
#[must_use]
pub fn delivery_rate(counts: &SentCounts) -> f64 {
    let delivered = u128::from(counts.delivered);
    let ended = delivered + u128::from(counts.bounced) + u128::from(counts.rejected);
    // In hundredths of a percent, rounded half up, so that no fraction is rounded twice. At most 10,000.
    let hundredths = (2 * 10_000 * delivered + ended).checked_div(2 * ended).unwrap_or(0);
    f64::from(u32::try_from(hundredths).unwrap_or(u32::MAX)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(delivered: u64, bounced: u64, rejected: u64) -> f64 {
        delivery_rate(&SentCounts { sent: 0, delivered, bounced, deferred: 7, rejected })
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "a rate has two decimals, and these are the nearest numbers to them")]
    fn a_rate_has_two_decimals_and_no_end_is_no_success() {
        assert_eq!(rate(0, 0, 0), 0.0);
        assert_eq!(rate(0, 3, 1), 0.0);
        assert_eq!(rate(5, 0, 0), 100.0);
        assert_eq!(rate(2, 1, 0), 66.67);
        assert_eq!(rate(1, 1, 1), 33.33);
        assert_eq!(rate(1, 0, 7), 12.5);
        assert_eq!(rate(1999, 0, 1), 99.95);
        assert_eq!(rate(19_999, 0, 1), 100.0, "99.995 is rounded up");
        assert_eq!(rate(u64::MAX, 0, 0), 100.0);
    }
}
