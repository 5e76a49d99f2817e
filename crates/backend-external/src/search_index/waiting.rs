//! The queue of indexing requests.

use std::collections::VecDeque;

use mailapi_backend::FolderScope;
use mailapi_model::EmailAddress;

/// A searched mailbox and the scope of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) mailbox: EmailAddress,
    pub(crate) scope: FolderScope,
}

/// Requests in the order of arrival, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<Request>);

impl Waiting {
    /// Adds a request, and returns whether it is in the queue. A full queue rejects it; the next search of the
    /// mailbox requests it again.
    pub(super) fn push(&mut self, request: Request, max: usize) -> bool {
        let is_there = self.0.contains(&request);
        if !is_there && self.0.len() < max {
            self.0.push_back(request);
            return true;
        }
        is_there
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(local: &str) -> Request {
        Request { mailbox: format!("{local}@example.org").parse().unwrap(), scope: FolderScope::All }
    }

    #[test]
    fn what_is_too_much_is_left_out_and_nothing_waits_twice() {
        let mut waiting = Waiting::default();
        assert!(waiting.push(request("a"), 2) && waiting.push(request("b"), 2));
        assert!(!waiting.push(request("c"), 2));
        assert!(waiting.push(request("a"), 2));
        assert_eq!([waiting.pop(), waiting.pop(), waiting.pop()], [Some(request("a")), Some(request("b")), None]);
    }
}
