//! Postfix's queue in the format of `postqueue -j` (postqueue(1)), as the operator sees it.

use mailapi_backend::{QueueEntry, QueueFilter, QueuedFor};
use mailapi_model::{EmailAddress, Page, QueueId, QueueState, Timestamp};
use serde::Deserialize;
use tokio::io::AsyncBufRead;

use crate::command::for_each_line;

/// One line of the listing.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    queue_name: String,
    pub(super) queue_id: String,
    arrival_time: u32,
    message_size: u64,
    /// Empty for the null reverse-path.
    sender: String,
    recipients: Vec<Recipient>,
}

#[derive(Debug, Deserialize)]
struct Recipient {
    address: String,
    /// Why the last attempt failed.
    delay_reason: Option<String>,
}

/// A page of the matching messages.
#[derive(Debug, Default)]
pub(super) struct Matches {
    pub(super) total: u64,
    pub(super) entries: Vec<QueueEntry>,
}

impl Listed {
    fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| format!("not in the format of postqueue -j: {error}"))
    }

    /// Returns the state, which Postfix has for the message as a whole.
    pub(super) fn state(&self) -> QueueState {
        match self.queue_name.as_str() {
            "active" => QueueState::Active,
            "deferred" => QueueState::Deferred,
            "hold" => QueueState::Held,
            _ => QueueState::Queued,
        }
    }

    fn is_match(&self, filter: &QueueFilter) -> bool {
        let of_domain = |address: &str| {
            let domain = address.rsplit_once('@').and_then(|(_, domain)| domain.parse().ok());
            filter.domain.as_ref().is_none_or(|wanted| domain.as_ref() == Some(wanted))
        };
        let is_from = of_domain(&self.sender);
        let is_to = |one: &Recipient| {
            (is_from || of_domain(&one.address))
                && filter.recipient.as_ref().is_none_or(|wanted| is_address(&one.address, wanted))
        };
        filter.state.is_none_or(|state| state == self.state()) && self.recipients.iter().any(is_to)
    }

    /// Converts it. A wanted recipient is the first.
    pub(super) fn into_entry(mut self, max_recipients: usize, wanted: Option<&EmailAddress>) -> QueueEntry {
        let state = self.state();
        let recipient_count = self.recipients.len() as u64;
        if let Some(wanted) = wanted {
            self.recipients.sort_by_key(|one| !is_address(&one.address, wanted));
        }
        let queued_for = |one: Recipient| QueuedFor {
            email: one.address,
            state,
            attempts: None,
            next_attempt_at: None,
            last_reply: one.delay_reason.map(|reason| reason.chars().take(QueueEntry::REPLY_CHARACTERS).collect()),
        };
        QueueEntry {
            queue_id: QueueId(self.queue_id),
            message_id: None,
            sender: self.sender,
            size: self.message_size,
            queued_at: Timestamp::from_seconds(self.arrival_time.into()),
            expires_at: None,
            recipients: self.recipients.into_iter().take(max_recipients).map(queued_for).collect(),
            recipient_count,
        }
    }
}

fn is_address(text: &str, wanted: &EmailAddress) -> bool {
    text.parse::<EmailAddress>().is_ok_and(|address| address == *wanted)
}

/// Reads a listing, and returns a page of the messages that match, those that arrived first. Postfix lists one queue
/// after the other, so the lines that match are kept until the end; `max_bytes` limits them, too.
pub(super) async fn page_of(
    listing: impl AsyncBufRead + Unpin,
    max_bytes: u64,
    filter: &QueueFilter,
    page: Page,
) -> Result<Matches, String> {
    let mut lines: Vec<(u32, Box<[u8]>)> = Vec::new();
    for_each_line(listing, max_bytes, |line| {
        let listed = Listed::parse(line)?;
        if listed.is_match(filter) {
            lines.push((listed.arrival_time, line.into()));
        }
        Ok(())
    })
    .await?;
    // The sort is stable, so messages of the same second keep their order.
    lines.sort_by_key(|(arrived, _)| *arrived);
    let skipped = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let shown = lines.iter().skip(skipped).take(page.limit() as usize);
    let entry = |(_, line): &(u32, Box<[u8]>)| {
        Ok(Listed::parse(line)?.into_entry(QueueEntry::LISTED_RECIPIENTS, filter.recipient.as_ref()))
    };
    Ok(Matches { total: lines.len() as u64, entries: shown.map(entry).collect::<Result<_, String>>()? })
}

/// Reads a listing to its end, and returns one message; `None` if it is not listed.
pub(super) async fn find(
    listing: impl AsyncBufRead + Unpin,
    max_bytes: u64,
    id: &QueueId,
) -> Result<Option<Listed>, String> {
    let mut found = None;
    for_each_line(listing, max_bytes, |line| {
        let listed = Listed::parse(line)?;
        if listed.queue_id == id.0 {
            found = Some(listed);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    fn line(queue: &str, id: &str, arrived: u32, sender: &str, recipients: &[&str]) -> String {
        let recipients: Vec<_> = recipients
            .iter()
            .map(|address| serde_json::json!({ "address": address, "delay_reason": "450 4.2.0 later" }))
            .collect();
        let line = serde_json::json!({
            "queue_name": queue, "queue_id": id, "arrival_time": arrived, "message_size": 326, "forced_expire": false,
            "sender": sender, "recipients": recipients,
        });
        format!("{line}\n")
    }

    fn listing() -> String {
        [
            line("deferred", "4jWk1z2", 30, "ann@example.org", &["bob@example.net", "Eve@far.example"]),
            line("hold", "4jWk1z3", 10, "", &["ann@example.org"]),
            line("active", "4jWk1z4", 20, "joe@far.example", &["bob@example.net"]),
        ]
        .concat()
    }

    fn ids(filter: &QueueFilter, page: Page) -> (u64, Vec<String>) {
        let text = listing();
        let matches = page_of(text.as_bytes(), 10_000, filter, page).now_or_never().unwrap().unwrap();
        (matches.total, matches.entries.into_iter().map(|entry| entry.queue_id.0).collect())
    }

    fn owned(ids: &[&str]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_listing_that_is_not_whole_is_none() {
        let refused = |text: &str, max| {
            let page = page_of(text.as_bytes(), max, &QueueFilter::default(), Page::default()).now_or_never();
            page.unwrap().is_err()
        };
        assert!(refused(&listing()[..listing().len() - 3], 10_000));
        assert!(refused("Mail queue is empty\n", 10_000));
        assert!(refused(&listing(), 100));
    }

    #[test]
    fn the_oldest_comes_first_and_pages_do_not_overlap() {
        let all = QueueFilter::default();
        assert_eq!(ids(&all, Page::default()), (3, owned(&["4jWk1z3", "4jWk1z4", "4jWk1z2"])));
        assert_eq!(ids(&all, Page::new(2, 0)), (3, owned(&["4jWk1z3", "4jWk1z4"])));
        assert_eq!(ids(&all, Page::new(2, 2)), (3, owned(&["4jWk1z2"])));
        assert_eq!(ids(&all, Page::new(2, 900)), (3, owned(&[])));
    }

    #[test]
    fn filters_narrow_the_list() {
        let none = QueueFilter::default;
        let domain = |name: &str| QueueFilter { domain: Some(name.parse().unwrap()), ..none() };
        let recipient = |text: &str| QueueFilter { recipient: Some(text.parse().unwrap()), ..none() };
        let state = |state| QueueFilter { state: Some(state), ..none() };
        for (filter, expected) in [
            (domain("example.org"), &["4jWk1z3", "4jWk1z2"][..]),
            (domain("FAR.example"), &["4jWk1z4", "4jWk1z2"]),
            (domain("ample.org"), &[]),
            (recipient("eve@far.example"), &["4jWk1z2"]),
            (state(QueueState::Held), &["4jWk1z3"]),
            (state(QueueState::Queued), &[]),
            (QueueFilter { state: Some(QueueState::Active), ..recipient("bob@example.net") }, &["4jWk1z4"]),
        ] {
            assert_eq!(ids(&filter, Page::default()), (expected.len() as u64, owned(expected)), "{filter:?}");
        }
    }

    #[test]
    fn an_entry_has_what_the_operator_needs() {
        let text = listing();
        let found = find(text.as_bytes(), 10_000, &QueueId("4jWk1z2".to_owned())).now_or_never().unwrap().unwrap();
        let wanted = "eve@far.example".parse().unwrap();
        let entry = found.unwrap().into_entry(1, Some(&wanted));
        assert_eq!((entry.size, entry.queued_at, entry.recipient_count), (326, Timestamp::from_seconds(30), 2));
        assert_eq!(entry.sender, "ann@example.org");
        let [eve] = &entry.recipients[..] else { panic!("{entry:?}") };
        assert_eq!((eve.email.as_str(), eve.state), ("Eve@far.example", QueueState::Deferred));
        assert_eq!(eve.last_reply.as_deref(), Some("450 4.2.0 later"));
        let absent = find(text.as_bytes(), 10_000, &QueueId("4jWk1z9".to_owned())).now_or_never().unwrap().unwrap();
        assert!(absent.is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0..300_usize, limit in 0..600_u64,
        ) {
            let filter = QueueFilter { domain: Some("example.org".parse().unwrap()), ..QueueFilter::default() };
            let text = [&listing().as_bytes()[..cut], &bytes].concat();
            for text in [&text[..], &bytes] {
                let _ = page_of(text, limit, &filter, Page::default()).now_or_never();
                let _ = find(text, limit, &QueueId("4jWk1z2".to_owned())).now_or_never();
            }
        }

        #[test]
        fn any_addresses_are_listed(sender in "\\PC{0,20}", recipient in "\\PC{0,20}@\\PC{0,10}", wanted in "[a-z]{1,3}") {
            let text = line("deferred", "4jWk1z2", 30, &sender, &[&recipient]);
            let filter = QueueFilter { domain: wanted.parse().ok(), ..QueueFilter::default() };
            let page = page_of(text.as_bytes(), 10_000, &filter, Page::default()).now_or_never().unwrap();
            prop_assert!(page.is_ok());
        }
    }
}
