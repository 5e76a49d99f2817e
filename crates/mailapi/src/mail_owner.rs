//! The one data directory that has the mail of accounts in PostgreSQL: a built-in mail server on another one is refused.

use std::time::Duration;

use mailapi_backend::Rounds;
use mailapi_backend_embedded::net::Shutdown;
use mailapi_model::{Clock, Entropy};
use mailapi_store::{MailClaim, MailClaimed, MailOwner, Store};

use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::system::machine;

/// Length of the lease of a running server. A copy of its directory on another machine can start this time after the
/// server was lost.
const LEASE: Duration = Duration::from_secs(30);
/// Time between two renewals: two of them may fail.
const RENEWAL: Duration = Duration::from_secs(10);
/// Time between two attempts to start while another server has the lease.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of the name of a server; enough to be unique.
const NAME_BYTES: usize = 16;

/// The lease of this server.
#[derive(Debug, Clone)]
pub(crate) struct MailLease {
    store: Store,
    server: String,
}

/// The data directory of this process.
#[derive(Clone, Copy)]
pub(crate) struct MailPlace<'a> {
    pub(crate) directory: &'a DataDir,
    /// The identifier of the directory; `None` if no server has run on it.
    pub(crate) node: Option<&'a str>,
}

impl MailLease {
    /// Makes this server the one that has the mail. Waits for the end of a lease that a server on the same directory left.
    ///
    /// # Errors
    /// Names the directory that has the mail, and what to do.
    pub(crate) async fn take(
        store: &Store,
        place: MailPlace<'_>,
        adopts: bool,
        (clock, entropy): (&dyn Clock, &dyn Entropy),
    ) -> Outcome<Self> {
        let mut name = [0; NAME_BYTES];
        entropy.fill(&mut name);
        let (host, boot) = machine();
        let claim = MailClaim {
            node: place.node.unwrap_or_default().to_owned(),
            place: format!("{host}:{}", place.directory.path().display()),
            machine: boot,
            server: name.iter().map(|byte| format!("{byte:02x}")).collect(),
            adopts,
        };
        let end = clock.steady() + LEASE + RENEWAL;
        loop {
            let owner = match store.mail_owners().claim(&claim, clock.now(), LEASE).await? {
                MailClaimed::Held => return Ok(Self { store: store.clone(), server: claim.server }),
                MailClaimed::Refused(owner) => owner,
            };
            if owner.node != claim.node || clock.steady() >= end {
                return Err(refused(&owner, &claim.node));
            }
            tracing::warn!(place = owner.place, "waiting for the lease of another server on the same mail to end");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Renews the lease. Returns at shutdown, or if another server has taken over: two of them must not run.
    pub(crate) async fn keep(self, mut shutdown: Shutdown) {
        let mut rounds = Rounds::of("mail owner");
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            rounds.begin();
            match self.store.mail_owners().renew(&self.server).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::error!("another server has the mail of this database now");
                    return;
                }
                Err(error) => tracing::warn!(%error, "failed to renew the lease of the mail; retrying"),
            }
        }
    }

    /// Ends the lease, so that the next start need not wait.
    pub(crate) async fn release(&self) {
        if let Err(error) = self.store.mail_owners().release(&self.server).await {
            tracing::warn!(%error, "failed to end the lease of the mail");
        }
    }
}

/// Refuses a command on a directory that does not have the mail: it would create mailboxes that no server has.
///
/// # Errors
/// Names the directory that has the mail, and what to do.
pub(crate) async fn check(store: &Store, place: MailPlace<'_>) -> Outcome {
    match store.mail_owners().get(LEASE).await? {
        Some(owner) if Some(owner.node.as_str()) != place.node => Err(refused(&owner, place.node.unwrap_or_default())),
        Some(_) | None => Ok(()),
    }
}

fn refused(owner: &MailOwner, node: &str) -> Failure {
    let MailOwner { place, since, running_since, .. } = owner;
    let running = match running_since {
        Some(started) => format!("a server has been running on it since {started}"),
        None => "no server is running on it".to_owned(),
    };
    let advice = match (owner.node == node, running_since) {
        (true, _) => "stop that server: its data directory is a copy of this one",
        (false, Some(_)) => "use it, or put this server in front of another mail server (mail.backend = \"external\")",
        (false, None) => {
            "use it, or restore its backup here; `mailapi adopt-mail` gives the accounts new, empty mailboxes here instead"
        }
    };
    Failure::new(format!(
        "database.url: the mail of these accounts is in the data directory {place} (since {since}; {running}), and the \
         built-in mail server works on one data directory only; {advice}"
    ))
}
