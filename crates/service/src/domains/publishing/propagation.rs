//! Whether the name servers of a zone have the records.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use mailapi_backend::DnsError;
use mailapi_model::SetChange;
use tokio::time::{Instant, sleep};

use super::primary::Primary;
use crate::Service;

/// Time for all name servers to get the records. Servers that are notified have them within a second; others ask the first
/// one as often as the zone says.
const UNTIL_SEEN: Duration = Duration::from_secs(15);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// A name server of the zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    /// Its name.
    pub server: String,
    /// Whether it has the records.
    pub state: ServerState,
    /// Why that is unknown.
    pub error: Option<String>,
}

/// Whether a name server has the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It answers all of them, at each of its addresses.
    Seen,
    /// It answers others.
    Waiting,
    /// It does not answer.
    Unknown,
}

impl ServerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Seen, Self::Waiting, Self::Unknown];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns the state of a name server by what each of its addresses answers: whether it has the records. One that answers
/// others decides, since one that does not answer proves nothing. Returns why the state is unknown, too.
pub(in crate::domains) fn state_of(answers: Vec<Result<bool, DnsError>>) -> (ServerState, Option<String>) {
    if answers.is_empty() {
        return (ServerState::Unknown, Some("it has no address".to_owned()));
    }
    if answers.contains(&Ok(false)) {
        return (ServerState::Waiting, None);
    }
    match answers.into_iter().find_map(Result::err) {
        Some(error) => (ServerState::Unknown, Some(error.to_string())),
        None => (ServerState::Seen, None),
    }
}

impl Service {
    /// Asks each name server until all have the records, or the time is over.
    pub(super) async fn seen_at_servers(&self, primary: &Primary<'_>, changes: &[SetChange]) -> Vec<ServerView> {
        let end = Instant::now() + UNTIL_SEEN;
        loop {
            let asked = primary.zone.servers.iter().map(|server| self.view_of(primary, server, changes));
            let views = join_all(asked).await;
            if Instant::now() >= end || views.iter().all(|view| view.state == ServerState::Seen) {
                return views;
            }
            sleep(PAUSE).await;
        }
    }

    async fn view_of(&self, primary: &Primary<'_>, server: &str, changes: &[SetChange]) -> ServerView {
        let answers = match primary.addresses_of(server).await {
            Ok(addresses) => join_all(addresses.into_iter().map(|address| self.has_all(address, changes))).await,
            Err(error) => vec![Err(error)],
        };
        let (state, error) = state_of(answers);
        ServerView { server: server.to_owned(), state, error }
    }

    async fn has_all(&self, server: SocketAddr, changes: &[SetChange]) -> Result<bool, DnsError> {
        for SetChange { name, kind, after, .. } in changes {
            let found = self.0.zone_dns.records_at(server, name, *kind).await?;
            if !found.set.has_records_of(after) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
