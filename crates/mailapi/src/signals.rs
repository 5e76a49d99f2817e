//! Signals from outside: those that stop the server, and the one that reloads files.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Outcome;

/// Receives SIGHUP, which no longer ends the process once a value exists.
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Starts receiving.
    pub(crate) fn listen() -> Outcome<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// Receives SIGTERM and SIGINT from the moment a value exists.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts receiving.
    pub(crate) fn listen() -> Outcome<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next signal, with its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
