//! Bounds the notices about mail from outside, whose sender may be forged.
//!
//! A stranger who sends to a recipient that refuses and to one that accepts makes this server send a notice to the
//! claimed sender. Beyond a limit, the whole message is refused temporarily, so that the other server still answers for
//! it, and an honest sender loses nothing. Notices about later failures are dropped, with a line in the log; the delivery
//! log has the failures. Mail from authors with a login or a token is not limited: they cannot claim another sender.

use mailapi_model::{ClientNetwork, EmailAddress, EnhancedCode, Reply, Timestamp};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::{Prepared, Relaying};
use crate::message_store::hourly::{HourlyCounts, HourlyLimit};

/// Maximum number of notices to one sender in an hour. A mailing list whose messages fail for some recipients here learns
/// that from the first ones.
const MOST_TO_SENDER: u64 = 20;

/// Maximum number of notices in an hour about mail from one client. It claims any number of senders.
const MOST_ABOUT_CLIENT: u64 = 200;

/// Maximum number of all these notices in an hour. It bounds the rows of the counters, too.
const MOST: u64 = 5_000;

/// A notice about a message that is being accepted.
#[derive(Debug, Clone)]
pub(crate) struct PreparedNotice {
    pub(crate) mail: Prepared,
    /// Who sent the message.
    pub(crate) client: ClientNetwork,
}

impl PreparedNotice {
    /// Counts the notice. Returns false if its sender must not get another one in this hour.
    pub(super) fn may_leave(
        &self,
        connection: &Connection,
        about: &Prepared,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        match &about.incoming.sender {
            Some(sender) if about.incoming.relaying == Relaying::Denied => {
                counted(connection, sender, Some(self.client), now)
            }
            _ => Ok(true),
        }
    }
}

/// Counts a notice to the sender of a message from outside. Returns false if the sender must not get another one in this
/// hour.
pub(crate) fn may_notify(connection: &Connection, sender: &EmailAddress, now: Timestamp) -> Result<bool, StoreError> {
    counted(connection, sender, None, now)
}

fn counted(
    connection: &Connection,
    sender: &EmailAddress,
    client: Option<ClientNetwork>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let mut hourly = HourlyCounts::new(now);
    let is_admitted = admit(connection, &mut hourly, sender, client)?;
    hourly.write(connection)?;
    Ok(is_admitted)
}

/// Like [`may_notify`], for counters that are written later.
pub(super) fn admit(
    connection: &Connection,
    hourly: &mut HourlyCounts,
    sender: &EmailAddress,
    client: Option<ClientNetwork>,
) -> Result<bool, StoreError> {
    // Each tag would make another sender of the same one.
    let sender = sender.without_tag().unwrap_or_else(|| sender.clone());
    let mut limits = vec![
        HourlyLimit { name: "notices".to_owned(), most: MOST },
        HourlyLimit { name: format!("notices to {}", sender.as_str()), most: MOST_TO_SENDER },
    ];
    // A customer has any number of smaller networks.
    limits.extend(
        client.map(|client| HourlyLimit {
            name: format!("notices about {}", client.subscriber()),
            most: MOST_ABOUT_CLIENT,
        }),
    );
    let full = hourly.raise(connection, &limits, 1)?;
    if let Some(full) = &full {
        tracing::warn!(limit = full, "too many notices in this hour; no further one is sent");
    }
    Ok(full.is_none())
}

/// The reply to a message that would cause a further notice.
pub(super) fn too_many() -> Reply {
    let text = "Too many notices to the sender in this hour, and another one would be due; try again later";
    Reply::new(451, EnhancedCode::new(4, 7, 1), text)
}
