//! The commit gate of a message: its bytes wait until its record is stored.

use tokio::sync::oneshot;

/// Waits until the message's record is committed, so that no message is sent without a trace.
///
/// The sender opens the gate once, by [`GateOpener::open`]. Dropping the [`GateOpener`] cancels the submission.
#[derive(Debug)]
pub struct CommitGate(State);

#[derive(Debug)]
enum State {
    Awaited(oneshot::Receiver<()>),
    Answered(bool),
}

/// Opens a [`CommitGate`].
#[derive(Debug)]
pub struct GateOpener(oneshot::Sender<()>);

impl CommitGate {
    /// Returns a closed gate and the means to open it.
    #[must_use]
    pub fn closed() -> (GateOpener, Self) {
        let (opener, awaited) = oneshot::channel();
        (GateOpener(opener), Self(State::Awaited(awaited)))
    }

    /// Returns an open gate.
    #[must_use]
    pub const fn opened() -> Self {
        Self(State::Answered(true))
    }

    /// Waits until the gate opens; returns false if it never will. Later calls return the same.
    pub async fn is_open(&mut self) -> bool {
        if let State::Awaited(awaited) = &mut self.0 {
            // Store the result: a receiver can be awaited only once.
            self.0 = State::Answered(awaited.await.is_ok());
        }
        matches!(self.0, State::Answered(true))
    }
}

impl GateOpener {
    /// Opens the gate.
    pub fn open(self) {
        // The receiver is gone if the submission has already failed.
        let _ = self.0.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gate_gives_the_same_answer_however_often_it_is_asked() {
        let (opener, mut commit_gate) = CommitGate::closed();
        drop(opener);
        assert!(!commit_gate.is_open().await);
        assert!(!commit_gate.is_open().await);
        let (opener, mut commit_gate) = CommitGate::closed();
        opener.open();
        assert!(commit_gate.is_open().await);
        assert!(commit_gate.is_open().await);
        assert!(CommitGate::opened().is_open().await);
        let (opener, commit_gate) = CommitGate::closed();
        drop(commit_gate);
        opener.open();
    }
}
