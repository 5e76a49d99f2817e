//! Breakdown of counts into the buckets of a period.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use mailapi_model::{DomainName, Timestamp, named_values};
use mailapi_store::{Hours, SentCounts, Span, StoreError};

use super::owners::Seen;
use crate::Service;

named_values! {
    /// The kind of buckets.
    #[derive(Default)]
    GroupBy, UnknownGroupBy, "must be one of day, hour, domain" {
        /// Days of UTC.
        #[default]
        Day = "day",
        /// Hours of UTC.
        Hour = "hour",
        /// The recipients' domains.
        Domain = "domain",
    }
}

/// A bucket of a breakdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bucket {
    /// The day that begins at this time.
    Day(Timestamp),
    /// The hour that begins at this time.
    Hour(Timestamp),
    /// Mail to this domain.
    Domain(DomainName),
}

impl fmt::Display for Bucket {
    /// `2026-11-20`, `2026-11-20T10:00:00Z`, or the domain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(begin) => f.write_str(&begin.to_string()[.."2026-11-20".len()]),
            Self::Hour(begin) => write!(f, "{}Z", &begin.to_string()[.."2026-11-20T10:00:00".len()]),
            Self::Domain(domain) => f.write_str(domain.shown()),
        }
    }
}

/// A bucket with its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakdownEntry {
    /// The bucket.
    pub bucket: Bucket,
    /// Its counts.
    pub counts: SentCounts,
}

impl Service {
    /// Returns the totals of a period and its buckets: all hours or days in order, even empty ones, or the
    /// recipients' domains, largest first.
    pub(super) async fn break_down(
        &self,
        seen: &Seen,
        hours: Hours,
        group_by: GroupBy,
    ) -> Result<(SentCounts, Vec<BreakdownEntry>), StoreError> {
        let span = if group_by == GroupBy::Hour { Span::Hour } else { Span::Day };
        let mut counted = BTreeMap::new();
        for (hours, scopes) in seen {
            add_all(&mut counted, self.0.store.stats().sent_by_time(scopes, *hours, span).await?);
        }
        let whole = sum(counted.values());
        let parts = match group_by {
            GroupBy::Day => every(hours, span, &counted, Bucket::Day),
            GroupBy::Hour => every(hours, span, &counted, Bucket::Hour),
            GroupBy::Domain => {
                let domains = self.sent_to_domains(seen, self.stats_limits().max_domains).await?;
                let entry = |(domain, counts)| BreakdownEntry { bucket: Bucket::Domain(domain), counts };
                domains.into_iter().map(entry).collect()
            }
        };
        Ok((whole, parts))
    }

    /// Returns the `most` recipient domains with the highest counts, in descending order.
    async fn sent_to_domains(&self, seen: &Seen, most: usize) -> Result<Vec<(DomainName, SentCounts)>, StoreError> {
        let mut counted = BTreeMap::new();
        // With several groups, each may have only a part of a domain's mail.
        let most_each = if seen.len() > 1 { usize::MAX } else { most };
        for (hours, scopes) in seen {
            add_all(&mut counted, self.0.store.stats().sent_to_domains(scopes, *hours, most_each).await?);
        }
        let mut domains: Vec<_> = counted.into_iter().collect();
        domains.sort_by_key(|(_, counts)| Reverse(counts.sent));
        domains.truncate(most);
        Ok(domains)
    }
}

fn add_all<K: Ord>(whole: &mut BTreeMap<K, SentCounts>, parts: impl IntoIterator<Item = (K, SentCounts)>) {
    for (key, counts) in parts {
        whole.entry(key).or_default().add(counts);
    }
}

pub(super) fn sum<'a>(counts: impl Iterator<Item = &'a SentCounts>) -> SentCounts {
    let mut whole = SentCounts::default();
    counts.for_each(|part| whole.add(*part));
    whole
}

/// All buckets of the period, with zeros for those without mail.
fn every(
    hours: Hours,
    span: Span,
    counted: &BTreeMap<Timestamp, SentCounts>,
    bucket: impl Fn(Timestamp) -> Bucket,
) -> Vec<BreakdownEntry> {
    let counts = |begin| counted.get(&begin).copied().unwrap_or_default();
    hours.each(span).map(|begin| BreakdownEntry { bucket: bucket(begin), counts: counts(begin) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        Timestamp::parse_date_or_time(text).unwrap()
    }

    #[test]
    fn a_bucket_is_named_by_its_beginning_in_utc() {
        let evening = moment("2026-11-20T23:30:00-05:00");
        assert_eq!(Bucket::Day(Span::Day.begin_of(evening)).to_string(), "2026-11-21");
        assert_eq!(Bucket::Hour(Span::Hour.begin_of(evening)).to_string(), "2026-11-21T04:00:00Z");
        let before_1970 = moment("1969-12-31T23:59:59Z");
        assert_eq!(Bucket::Hour(Span::Hour.begin_of(before_1970)).to_string(), "1969-12-31T23:00:00Z");
        assert_eq!(Bucket::Domain("bücher.example".parse().unwrap()).to_string(), "bücher.example");
    }

    #[test]
    fn hours_without_mail_are_there_with_zeros() {
        let hours = Hours::around(moment("2026-11-20T22:10:00Z"), moment("2026-11-21T00:10:00Z"));
        let busy = SentCounts { sent: 2, delivered: 1, ..SentCounts::default() };
        let counted = BTreeMap::from([(moment("2026-11-20T23:00:00Z"), busy)]);
        let shown: Vec<_> = every(hours, Span::Hour, &counted, Bucket::Hour)
            .into_iter()
            .map(|entry| (entry.bucket.to_string(), entry.counts.sent))
            .collect();
        let expected = [("2026-11-20T22:00:00Z", 0), ("2026-11-20T23:00:00Z", 2), ("2026-11-21T00:00:00Z", 0)];
        assert_eq!(shown, expected.map(|(date, sent)| (date.to_owned(), sent)));
    }

    #[test]
    fn only_three_groupings_are_known() {
        for name in ["", "Day", "week"] {
            assert_eq!(name.parse::<GroupBy>(), Err(UnknownGroupBy));
        }
        for group_by in GroupBy::ALL {
            assert_eq!(group_by.as_str().parse(), Ok(group_by));
        }
    }
}
