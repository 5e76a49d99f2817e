//! The shutdown of the server, for responses that wait or never end.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::watch;

use crate::client_address::Arrival;

/// Resolves when the server that received the request shuts down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closing(Option<watch::Receiver<bool>>);

impl Closing {
    /// Follows `closing`, which becomes true at shutdown.
    pub(crate) const fn new(closing: watch::Receiver<bool>) -> Self {
        Self(Some(closing))
    }

    /// Waits for the shutdown. A router without a server never shuts down.
    pub(crate) async fn begun(&mut self) {
        match &mut self.0 {
            // An error means that the server is gone.
            Some(closing) => drop(closing.wait_for(|is_closing| *is_closing).await),
            None => std::future::pending().await,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Closing {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Arrival>().map(|arrival| arrival.closing.clone()).unwrap_or_default())
    }
}
