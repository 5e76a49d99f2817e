//! Numbers that distinguish the facts of one millisecond.

use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_events::FactNumber;

/// The numbers of one handle on a database. Handles, in this process or in others, have random names.
#[derive(Debug)]
pub(crate) struct FactNumbers {
    writer: u64,
    next: AtomicU64,
}

impl FactNumbers {
    pub(crate) const fn of(writer: u64) -> Self {
        Self { writer, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> FactNumber {
        FactNumber::new(self.writer, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
