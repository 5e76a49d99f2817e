//! The shutdown signal.

use tokio::sync::watch;

/// Receives the shutdown signal. Clones receive the same signal.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Returns the sender, which signals by sending `true` or by being dropped, and the receiver.
    #[must_use]
    pub fn channel() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Waits for the signal. Cancel-safe.
    pub async fn requested(&mut self) {
        // A dropped sender also counts as the signal.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl From<watch::Receiver<bool>> for Shutdown {
    /// Uses an existing channel, whose sender signals by sending `true`.
    fn from(receiver: watch::Receiver<bool>) -> Self {
        Self(receiver)
    }
}
