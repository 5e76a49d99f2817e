//! Rows of the MTA-STS policies of other domains.

use mailapi_model::{DomainName, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::{MessageStore, MessageStoreError};

/// Maximum number of policies. Users choose the domains that they write to.
const MOST: i64 = 10_000;

/// Maximum number of expired policies that a new one removes.
const REMOVED_AT_ONCE: i64 = 20;

/// A policy that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPolicy {
    /// The identifier in DNS at the time of the fetch.
    pub(crate) record_id: String,
    /// Its text.
    pub(crate) policy: String,
    /// When it is fetched again. Otherwise it would expire, and an attacker who then blocks its host would remove it (RFC
    /// 8461 section 3.3).
    pub(crate) refresh_at: Timestamp,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
}

impl MessageStore {
    /// Returns the policy of a domain, unless it has expired.
    pub(crate) async fn sts_policy(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Option<StoredPolicy>, MessageStoreError> {
        self.read_one(|connection| {
            let sql = "SELECT record_id, policy, refresh_at, expires_at FROM drop_sts_policies
                WHERE domain = ?1 AND expires_at > ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_row(params![domain.as_str(), now.as_millis()], |row| {
                Ok(StoredPolicy {
                    record_id: row.get(0)?,
                    policy: row.get(1)?,
                    refresh_at: Timestamp::from_millis(row.get(2)?),
                    expires_at: Timestamp::from_millis(row.get(3)?),
                })
            });
            Ok(found.optional()?)
        })
        .await
    }

    /// Stores the policy of a domain, and removes some that have expired. Beyond [`MOST`] policies no new domain is added.
    pub(crate) async fn put_sts_policy(
        &self,
        domain: &DomainName,
        stored: StoredPolicy,
        now: Timestamp,
    ) -> Result<(), MessageStoreError> {
        let domain = domain.as_str().to_owned();
        self.write(move |connection, _| {
            let expired = "DELETE FROM drop_sts_policies WHERE domain IN
                (SELECT domain FROM drop_sts_policies WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
            connection.prepare_cached(expired)?.execute(params![now.as_millis(), REMOVED_AT_ONCE])?;
            let sql = "INSERT INTO drop_sts_policies (domain, record_id, policy, refresh_at, expires_at)
                SELECT ?1, ?2, ?3, ?4, ?5
                WHERE (SELECT count(*) FROM drop_sts_policies) < ?6
                    OR EXISTS (SELECT 1 FROM drop_sts_policies WHERE domain = ?1)
                ON CONFLICT (domain) DO UPDATE SET record_id = excluded.record_id, policy = excluded.policy,
                    refresh_at = excluded.refresh_at, expires_at = excluded.expires_at";
            let StoredPolicy { record_id, policy, refresh_at, expires_at } = stored;
            let values = params![domain, record_id, policy, refresh_at.as_millis(), expires_at.as_millis(), MOST];
            connection.prepare_cached(sql)?.execute(values)?;
            Ok(())
        })
        .await
    }
}
