//! Counts the rounds of a background loop.

/// Counts the rounds of one background loop, and logs each at level TRACE with the target `mailapi::rounds`.
/// The count of an idle loop does not change.
#[derive(Debug)]
pub struct Rounds {
    of: &'static str,
    count: u64,
}

impl Rounds {
    /// Starts counting the rounds of the loop with this name.
    #[must_use]
    pub const fn of(name: &'static str) -> Self {
        Self { of: name, count: 0 }
    }

    /// Counts a round that begins.
    pub fn begin(&mut self) {
        self.count += 1;
        tracing::trace!(target: "mailapi::rounds", of = self.of, round = self.count, "background loop round");
    }

    /// Returns the number of rounds so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}
