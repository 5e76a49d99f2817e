//! The order of SORT (RFC 5256 section 3, RFC 5957).

use std::cmp::Ordering;

use super::subject::BaseSubject;
use super::{OrderFacts, folded};
use crate::server::command::{SortCriterion, SortKey};

/// A value to compare, computed once for each message.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i128),
    Text(String),
}

/// Returns the UIDs in order. Equal messages keep the order of their UIDs.
pub(in crate::server) fn sort(messages: &[OrderFacts], criteria: &[SortCriterion]) -> Vec<u32> {
    let values = |facts: &OrderFacts| criteria.iter().map(|criterion| value(facts, criterion.key)).collect();
    let mut keyed: Vec<(Vec<Value>, u32)> = messages.iter().map(|facts| (values(facts), facts.uid)).collect();
    keyed.sort_by(|one, other| compare(&one.0, &other.0, criteria).then(one.1.cmp(&other.1)));
    keyed.into_iter().map(|(_, uid)| uid).collect()
}

fn compare(one: &[Value], other: &[Value], criteria: &[SortCriterion]) -> Ordering {
    let each = one.iter().zip(other).zip(criteria);
    let ordered = each.map(|((one, other), criterion)| if criterion.reverse { other.cmp(one) } else { one.cmp(other) });
    ordered.fold(Ordering::Equal, Ordering::then)
}

fn value(facts: &OrderFacts, key: SortKey) -> Value {
    match key {
        SortKey::Arrival => Value::Number(facts.received.as_nanosecond()),
        SortKey::Date => Value::Number(facts.sent.as_nanosecond()),
        SortKey::Size => Value::Number(i128::from(facts.size)),
        SortKey::Cc => Value::Text(folded(&facts.cc)),
        SortKey::From => Value::Text(folded(&facts.from.local_part)),
        SortKey::To => Value::Text(folded(&facts.to.local_part)),
        SortKey::DisplayFrom => Value::Text(folded(&facts.from.display)),
        SortKey::DisplayTo => Value::Text(folded(&facts.to.display)),
        SortKey::Subject => Value::Text(BaseSubject::of(&facts.subject).text),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn message(uid: u32, subject: &str, size: u64) -> OrderFacts {
        OrderFacts { uid, subject: subject.to_owned(), size, ..OrderFacts::default() }
    }

    fn by(key: SortKey, reverse: bool) -> SortCriterion {
        SortCriterion { key, reverse }
    }

    #[test]
    fn later_criteria_decide_between_equal_messages() {
        let messages = [message(1, "b", 5), message(2, "Re: a", 5), message(3, "a", 7), message(4, "a", 5)];
        assert_eq!(sort(&messages, &[by(SortKey::Subject, false)]), [2, 3, 4, 1]);
        assert_eq!(sort(&messages, &[by(SortKey::Subject, true), by(SortKey::Size, true)]), [1, 3, 2, 4]);
        assert_eq!(sort(&messages, &[by(SortKey::Size, false)]), [1, 2, 4, 3]);
    }

    #[test]
    fn dates_compare_as_times() {
        let mut messages = [message(1, "", 0), message(2, "", 0)];
        messages[0].sent = Timestamp::constant(5, 0);
        assert_eq!(sort(&messages, &[by(SortKey::Date, false)]), [2, 1]);
        assert_eq!(sort(&messages, &[by(SortKey::Arrival, true)]), [1, 2]);
    }
}
