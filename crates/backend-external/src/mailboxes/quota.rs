//! Reads the usage and the quota of a mailbox.

use mailapi_imap::client::{Command, Untagged};
use mailapi_model::Quota;

use super::folders::ListFolders;
use crate::imap_pool::{ImapConnection, ImapError, Job};

/// Bytes per unit of STORAGE (RFC 9208 section 5.1).
const STORAGE_UNIT: u64 = 1024;

/// Sums the folder sizes, which are exact. Only the limit comes from QUOTA, which counts in units of 1,024 bytes.
pub(super) struct ReadQuota;

impl Job for ReadQuota {
    type Output = Quota;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Quota, ImapError> {
        let folders = ListFolders.run(connection).await?;
        let limit_bytes = if connection.capabilities().has("QUOTA") { limit(connection).await? } else { None };
        Ok(Quota {
            // A server may send any numbers.
            used_bytes: folders.iter().map(|folder| folder.size).fold(0, u64::saturating_add),
            messages: folders.iter().map(|folder| folder.messages).fold(0, u64::saturating_add),
            limit_bytes,
        })
    }
}

async fn limit(connection: &mut ImapConnection) -> Result<Option<u64>, ImapError> {
    let mut smallest = None::<u64>;
    let asked = connection.run(Command::quota_root("INBOX"), |untagged| {
        // Several quota roots may apply; the smallest limit takes effect.
        if let Untagged::Quota(resources) = untagged {
            let storage = resources.into_iter().filter(|resource| resource.name == "STORAGE");
            smallest = storage.map(|resource| resource.limit.saturating_mul(STORAGE_UNIT)).chain(smallest).min();
        }
    });
    asked.await?;
    Ok(smallest)
}
