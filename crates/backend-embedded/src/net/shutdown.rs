//! The signal to come to an end.

use tokio::sync::watch;

/// Tells everything that runs to come to an end; clones hear the same signal.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// What gives the signal (by sending `true`, or by going away), and what hears it.
    #[must_use]
    pub fn channel() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Returns when it is time to end. Cancel-safe.
    pub async fn requested(&mut self) {
        // A sender that is gone cannot give the signal any more: that is the end, too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl From<watch::Receiver<bool>> for Shutdown {
    /// Hears a signal that somebody else gives by sending `true`.
    fn from(receiver: watch::Receiver<bool>) -> Self {
        Self(receiver)
    }
}
