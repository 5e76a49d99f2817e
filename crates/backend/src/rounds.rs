//! The count of a background loop's rounds.

/// Counts the rounds of one background loop, and reports each at level TRACE as an event of the target
/// `mailapi::rounds`. A loop at rest waits, and its count does not change.
#[derive(Debug)]
pub struct Rounds {
    of: &'static str,
    count: u64,
}

impl Rounds {
    /// The target of the events.
    pub const TARGET: &'static str = "mailapi::rounds";

    /// The rounds of the loop with this name.
    #[must_use]
    pub const fn of(name: &'static str) -> Self {
        Self { of: name, count: 0 }
    }

    /// The loop begins its next round.
    pub fn begin(&mut self) {
        self.count += 1;
        tracing::trace!(target: "mailapi::rounds", of = self.of, round = self.count, "a background loop begins a round");
    }

    /// The rounds until now.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}
