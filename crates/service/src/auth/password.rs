//! Password hashes: `{SHA512-CRYPT}$6$rounds=…$salt$hash`, which Dovecot and every `crypt(3)` verify too.

use mailapi_model::{Entropy, Secret, SecretText};
use sha_crypt::{Algorithm, CustomizedPasswordHasher, Params, PasswordHash, PasswordVerifier, ShaCrypt};

use crate::{Service, Unavailable};

const SCHEME: &str = "{SHA512-CRYPT}";

/// Twelve octets become sixteen characters of salt: exactly as many as `crypt(3)` takes into account. A longer salt
/// would be cut by others and the password would not verify there.
const SALT_OCTETS: usize = 12;

impl Service {
    /// Hashes a new password, on a thread of its own and only so many at once.
    pub(crate) async fn hash(&self, password: SecretText) -> Result<SecretText, Unavailable> {
        let (rounds, entropy) = (self.0.settings.password_rounds, self.0.entropy.clone());
        self.on_hashing_thread(move || hash_password(&password, rounds, entropy.as_ref())).await?
    }

    /// Whether `password` is the one that was hashed.
    pub(crate) async fn verify(&self, password: SecretText, hash: SecretText) -> Result<bool, Unavailable> {
        self.on_hashing_thread(move || verify_password(&password, &hash)).await
    }

    /// Costs what [`Service::verify`] costs and says no: the answer for an address that does not exist.
    pub(crate) async fn verify_against_nothing(&self, password: SecretText) -> Result<(), Unavailable> {
        let rounds = self.0.settings.password_rounds;
        self.on_hashing_thread(move || drop(computed(&password, &[0; SALT_OCTETS], rounds))).await
    }

    async fn on_hashing_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let broken = |error: String| Unavailable::Unforeseen(format!("password hashing: {error}"));
        let _turn = self.0.hashing.acquire().await.map_err(|error| broken(error.to_string()))?;
        tokio::task::spawn_blocking(work).await.map_err(|error| broken(error.to_string()))
    }
}

/// The hash of a new password with its scheme in braces.
fn hash_password(password: &SecretText, rounds: u32, entropy: &dyn Entropy) -> Result<SecretText, Unavailable> {
    let mut salt = [0; SALT_OCTETS];
    entropy.fill(&mut salt);
    let hash = computed(password, &salt, rounds)?;
    Ok(Secret::new(format!("{SCHEME}{}", hash.as_str())))
}

fn computed(password: &SecretText, salt: &[u8], rounds: u32) -> Result<PasswordHash, Unavailable> {
    let refused = |error: String| Unavailable::Unforeseen(format!("password hashing: {error}"));
    let params = Params::new(rounds).map_err(|error| refused(error.to_string()))?;
    ShaCrypt::SHA512
        .hash_password_customized(
            password.expose().as_bytes(),
            salt,
            Some(Algorithm::Sha512Crypt.to_str()),
            None,
            params,
        )
        .map_err(|error| refused(error.to_string()))
}

/// Whether `hash`, with its scheme in braces or a bare `$6$…`, is one of `password`. A scheme that is not known here
/// verifies nothing.
fn verify_password(password: &SecretText, hash: &SecretText) -> bool {
    let hash = hash.expose();
    let bare = hash.strip_prefix(SCHEME).unwrap_or(hash);
    let parsed = PasswordHash::new(bare);
    bare.starts_with("$6$")
        && parsed.is_ok_and(|parsed| ShaCrypt::SHA512.verify_password(password.expose().as_bytes(), &parsed).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Salt;
    impl Entropy for Salt {
        fn fill(&self, buffer: &mut [u8]) {
            (7_u8..).zip(buffer).for_each(|(n, byte)| *byte = n.wrapping_mul(41));
        }
    }

    fn secret(text: &str) -> SecretText {
        Secret::new(text.to_owned())
    }

    #[test]
    fn only_the_right_password_verifies() {
        let hash = hash_password(&secret("correct horse"), 1000, &Salt).unwrap();
        assert!(!verify_password(&secret("correct hors"), &hash));
        assert!(!verify_password(&secret(""), &hash));
        assert!(verify_password(&secret("correct horse"), &hash));
    }

    #[test]
    fn the_salt_has_the_sixteen_characters_that_others_take_into_account() {
        let hash = hash_password(&secret("correct horse"), 5000, &Salt).unwrap();
        let fields: Vec<&str> = hash.expose().split('$').collect();
        assert_eq!((fields[0], fields[1], fields[2], fields[3].len()), ("{SHA512-CRYPT}", "6", "rounds=5000", 16));
    }

    #[test]
    fn a_hash_made_by_crypt_verifies_and_nonsense_does_not() {
        // `openssl passwd -6 -salt saltstring 'Hello world!'`, which is also the first test vector of SHA-crypt.
        let vector =
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        assert!(verify_password(&secret("Hello world!"), &secret(vector)));
        assert!(verify_password(&secret("Hello world!"), &secret(&format!("{SCHEME}{vector}"))));
        for nonsense in ["", "{PLAIN}Hello world!", "$6$", "$6$$", "{SHA512-CRYPT}", "$5$saltstring$5B8vYYiY"] {
            assert!(!verify_password(&secret("Hello world!"), &secret(nonsense)), "{nonsense}");
        }
    }
}
