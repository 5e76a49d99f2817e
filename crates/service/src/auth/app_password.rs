//! App passwords at logins of mail programs.

use mailapi_model::{AppPasswordValue, EmailAddress, Secret, SecretText, StoredAppPassword};

use super::password::{salted_sha512, verify_password};
use crate::{Service, Unavailable};

/// Bytes of salt. Equal values do not occur, but a search through all values tests each hash for itself.
const SALT_BYTES: usize = 16;

impl Service {
    /// Hashes a new app password. It is random, so a fast hash suffices: no list of likely values can be tested.
    pub(crate) fn hash_app_password(&self, value: &AppPasswordValue) -> SecretText {
        let mut salt = [0; SALT_BYTES];
        self.0.entropy.fill(&mut salt);
        salted_sha512(value.expose().as_bytes(), &salt)
    }

    /// Returns the app password of an active mailbox that was typed, if it is one. The same steps run whether the
    /// mailbox exists and has app passwords or not.
    pub(super) async fn matching_app_password(
        &self,
        user: &str,
        typed: &SecretText,
    ) -> Result<Option<StoredAppPassword>, Unavailable> {
        let Some(value) = AppPasswordValue::from_typed(typed.expose()) else { return Ok(None) };
        let Ok(email) = user.parse::<EmailAddress>() else { return Ok(None) };
        let stored = self.0.store.app_passwords().with_key(&email, &value.lookup_key()).await?;
        let hash = stored.as_ref().map(|stored| &stored.credentials.password_hash);
        let matches = verify_app_password(value, hash);
        let Some(stored) = stored.filter(|stored| matches && stored.credentials.active) else { return Ok(None) };
        // Users of an external user database have no app passwords; this one is of a former account of our own.
        let is_elsewhere =
            self.0.store.directory().is_some() && self.0.store.copies().is_copy(&email).await? == Some(true);
        Ok(Some(stored).filter(|_| !is_elsewhere))
    }
}

/// Whether the value matches the hash. Without one, nothing matches, at the same cost.
fn verify_app_password(value: AppPasswordValue, hash: Option<&SecretText>) -> bool {
    let text = Secret::new(value.expose().to_owned());
    match hash {
        Some(hash) => verify_password(&text, hash),
        None => verify_password(&text, &salted_sha512(&[], &[0; SALT_BYTES])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_value_matches() {
        let [value, other] = ["aaaaa-bbbbb-ccccc-ddddd", "aaaaa-bbbbb-ccccc-dddde"]
            .map(|text| AppPasswordValue::from_typed(text).unwrap());
        let hash = salted_sha512(value.expose().as_bytes(), &[7; SALT_BYTES]);
        assert!(verify_app_password(value.clone(), Some(&hash)));
        assert!(!verify_app_password(other, Some(&hash)));
        assert!(!verify_app_password(value, None));
    }
}
