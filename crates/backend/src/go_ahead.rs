//! The word that a message may be handed over.

use tokio::sync::oneshot;

use crate::SubmitError;

/// Waits for the word that a message may be handed over: that it is stored, so that nothing is sent without trace.
///
/// Whoever gives the word does so once, by [`Permit::give`]. A [`Permit`] that is dropped is a refusal.
#[derive(Debug)]
pub struct GoAhead(State);

#[derive(Debug)]
enum State {
    Awaited(oneshot::Receiver<()>),
    Answered(bool),
}

/// The other end of a [`GoAhead`].
#[derive(Debug)]
pub struct Permit(oneshot::Sender<()>);

impl GoAhead {
    /// A word that is still to be given, and who gives it.
    #[must_use]
    pub fn awaited() -> (Permit, Self) {
        let (permit, awaited) = oneshot::channel();
        (Permit(permit), Self(State::Awaited(awaited)))
    }

    /// A word that was given.
    #[must_use]
    pub const fn given() -> Self {
        Self(State::Answered(true))
    }

    /// Waits for the word. False when it will never be given; asked again, it answers the same.
    pub async fn is_given(&mut self) -> bool {
        if let State::Awaited(awaited) = &mut self.0 {
            self.0 = State::Answered(awaited.await.is_ok());
        }
        matches!(self.0, State::Answered(true))
    }

    /// The same for whoever hands nothing over without it.
    ///
    /// # Errors
    /// [`SubmitError::withdrawn`] when it will never be given.
    pub async fn demand(&mut self) -> Result<(), SubmitError> {
        if self.is_given().await { Ok(()) } else { Err(SubmitError::withdrawn()) }
    }
}

impl Permit {
    /// The message may be handed over.
    pub fn give(self) {
        // Nobody waits for it when the handing-over has failed already.
        let _ = self.0.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_word_is_what_became_of_the_permit_however_often_it_is_asked() {
        let (permit, mut go_ahead) = GoAhead::awaited();
        drop(permit);
        assert!(!go_ahead.is_given().await);
        assert!(!go_ahead.is_given().await);
        let (permit, mut go_ahead) = GoAhead::awaited();
        permit.give();
        assert!(go_ahead.is_given().await);
        assert!(go_ahead.is_given().await);
        assert!(GoAhead::given().is_given().await);
        let (permit, go_ahead) = GoAhead::awaited();
        drop(go_ahead);
        permit.give();
    }
}
