//! The word that a message may be handed over.

use tokio::sync::oneshot;

use crate::SubmitError;

/// Waits for the word that a message may be handed over: that it is stored, so that nothing is sent without trace.
///
/// Whoever gives the word does so once, by [`GateOpener::open`]. A [`GateOpener`] that is dropped is a refusal.
#[derive(Debug)]
pub struct CommitGate(State);

#[derive(Debug)]
enum State {
    Awaited(oneshot::Receiver<()>),
    Answered(bool),
}

/// The other end of a [`CommitGate`].
#[derive(Debug)]
pub struct GateOpener(oneshot::Sender<()>);

impl CommitGate {
    /// A word that is still to be given, and who gives it.
    #[must_use]
    pub fn closed() -> (GateOpener, Self) {
        let (opener, awaited) = oneshot::channel();
        (GateOpener(opener), Self(State::Awaited(awaited)))
    }

    /// A word that was given.
    #[must_use]
    pub const fn opened() -> Self {
        Self(State::Answered(true))
    }

    /// Waits for the word. False when it will never be given; asked again, it answers the same.
    pub async fn is_open(&mut self) -> bool {
        if let State::Awaited(awaited) = &mut self.0 {
            self.0 = State::Answered(awaited.await.is_ok());
        }
        matches!(self.0, State::Answered(true))
    }

    /// The same for whoever hands nothing over without it.
    ///
    /// # Errors
    /// [`SubmitError::withdrawn`] when it will never be given.
    pub async fn pass(&mut self) -> Result<(), SubmitError> {
        if self.is_open().await { Ok(()) } else { Err(SubmitError::withdrawn()) }
    }
}

impl GateOpener {
    /// The message may be handed over.
    pub fn open(self) {
        // Nobody waits for it when the handing-over has failed already.
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
