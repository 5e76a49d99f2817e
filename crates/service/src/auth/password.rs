//! Password hashes: `{SHA512-CRYPT}$6$rounds=…$salt$hash`, which Dovecot and every `crypt(3)` verify too. Imported
//! hashes (`{SSHA512}`, `{BLF-CRYPT}`) are verified as well, and replaced at the next login.

use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use mailapi_model::{Credentials, Entropy, Secret, SecretText};
use sha_crypt::{Algorithm, CustomizedPasswordHasher, Params, PasswordHash, PasswordVerifier, ShaCrypt};
use sha2::{Digest, Sha512};

use super::Share;
use crate::{Service, Unavailable};

const SCHEME: &str = "{SHA512-CRYPT}";

/// Bytes of a SHA-512 digest.
const SHA512_BYTES: usize = 64;

/// Allowed rounds of SHA-512-crypt. The minimum is that of the scheme. A hash with more rounds than the maximum
/// verifies no password, wherever it was made: otherwise logins to one account could occupy the machine.
pub const PASSWORD_ROUNDS: RangeInclusive<u32> = 1_000..=1_000_000;

/// The maximum cost of bcrypt, for the same reason: the binary logarithm of its rounds.
pub(super) const MAX_BLOWFISH_COST: u32 = 15;

/// Twelve bytes become sixteen characters of salt, the maximum of `crypt(3)`. Other programs would cut a longer
/// salt, and the password would not verify there.
const SALT_BYTES: usize = 12;

impl Service {
    /// Hashes a new password on a hashing thread.
    pub(crate) async fn hash(&self, password: SecretText, share: Share) -> Result<SecretText, Unavailable> {
        let (rounds, entropy) = (self.0.settings.password_rounds, self.0.entropy.clone());
        self.0.hashing.run(share, move || hash_password(&password, rounds, entropy.as_ref())).await?
    }

    /// Whether `password` matches `hash`.
    pub(crate) async fn verify(
        &self,
        password: SecretText,
        hash: SecretText,
        share: Share,
    ) -> Result<bool, Unavailable> {
        self.0.hashing.run(share, move || verify_password(&password, &hash)).await
    }

    /// Costs as much as [`Service::verify`] and matches nothing: for an address that does not exist.
    pub(crate) async fn verify_against_nothing(&self, password: SecretText, share: Share) -> Result<(), Unavailable> {
        let rounds = self.0.settings.password_rounds;
        self.0.hashing.run(share, move || drop(computed(&password, &[0; SALT_BYTES], rounds))).await
    }
}

/// Hashes a new password; the result includes the scheme in braces.
fn hash_password(password: &SecretText, rounds: u32, entropy: &dyn Entropy) -> Result<SecretText, Unavailable> {
    let mut salt = [0; SALT_BYTES];
    entropy.fill(&mut salt);
    let hash = computed(password, &salt, rounds)?;
    Ok(Secret::new(format!("{SCHEME}{}", hash.as_str())))
}

fn computed(password: &SecretText, salt: &[u8], rounds: u32) -> Result<PasswordHash, Unavailable> {
    let refused = |error: String| Unavailable::Unforeseen(format!("password hashing failed: {error}"));
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

/// The hash schemes that can be verified.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scheme {
    Sha512Crypt,
    SaltedSha512,
    Blowfish,
}

impl Scheme {
    /// Returns the name that Dovecot uses too, without braces.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sha512Crypt => "SHA512-CRYPT",
            Self::SaltedSha512 => "SSHA512",
            Self::Blowfish => "BLF-CRYPT",
        }
    }
}

/// Splits a hash into its scheme and the rest. The scheme is in braces, in any case, as in Dovecot; `crypt(3)`
/// schemes are recognized by their prefix. `None` for an unknown scheme.
pub(super) fn scheme_of(hash: &str) -> Option<(Scheme, &str)> {
    let (name, hash) = match hash.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((name, hash)) => (name.to_ascii_uppercase(), hash),
        None => (String::new(), hash),
    };
    let scheme = match name.as_str() {
        "SHA512-CRYPT" => Scheme::Sha512Crypt,
        "SSHA512" => Scheme::SaltedSha512,
        "BLF-CRYPT" => Scheme::Blowfish,
        "" | "CRYPT" if hash.starts_with("$6$") => Scheme::Sha512Crypt,
        "" | "CRYPT" if hash.starts_with("$2") => Scheme::Blowfish,
        _ => return None,
    };
    Some((scheme, hash))
}

/// Whether `password` matches `hash`. A hash of an unknown scheme matches nothing.
pub(super) fn verify_password(password: &SecretText, hash: &SecretText) -> bool {
    let password = password.expose().as_bytes();
    match scheme_of(hash.expose()) {
        Some((Scheme::Sha512Crypt, hash)) => verify_sha512_crypt(password, hash),
        Some((Scheme::SaltedSha512, encoded)) => verify_salted_sha512(password, encoded),
        Some((Scheme::Blowfish, hash)) => verify_blowfish(password, hash),
        None => false,
    }
}

/// Whether verifying this hash is faster than verifying a default one: its scheme is cheap or unknown, or it is
/// malformed.
pub(super) fn is_cheap(hash: &SecretText) -> bool {
    match scheme_of(hash.expose()) {
        Some((Scheme::Sha512Crypt, hash)) => sha512_crypt(hash).is_none(),
        Some((Scheme::Blowfish, hash)) => !is_bearable_blowfish(hash),
        Some((Scheme::SaltedSha512, _)) | None => true,
    }
}

fn verify_sha512_crypt(password: &[u8], hash: &str) -> bool {
    sha512_crypt(hash).is_some_and(|hash| ShaCrypt::SHA512.verify_password(password, &hash).is_ok())
}

/// Parses the hash; `None` if it is malformed or has too many rounds.
fn sha512_crypt(hash: &str) -> Option<PasswordHash> {
    let rounds = hash.strip_prefix("$6$rounds=").and_then(|rest| rest.split('$').next());
    let bearable =
        rounds.is_none_or(|rounds| rounds.parse::<u32>().is_ok_and(|rounds| rounds <= *PASSWORD_ROUNDS.end()));
    PasswordHash::new(hash).ok().filter(|_| bearable && hash.starts_with("$6$"))
}

/// Verifies Dovecot's SSHA512: base64 of the digest of password and salt, followed by the salt.
fn verify_salted_sha512(password: &[u8], encoded: &str) -> bool {
    let Some((digest, salt)) = salted_sha512_parts(encoded) else { return false };
    let computed = Sha512::new().chain_update(password).chain_update(&salt).finalize();
    aws_lc_rs::constant_time::verify_slices_are_equal(&computed, &digest).is_ok()
}

/// Splits such a hash into digest and salt; `None` if it is malformed.
pub(super) fn salted_sha512_parts(encoded: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut digest = STANDARD.decode(encoded).ok().filter(|bytes| bytes.len() >= SHA512_BYTES)?;
    let salt = digest.split_off(SHA512_BYTES);
    Some((digest, salt))
}

/// Hashes a random password in the form that [`verify_salted_sha512`] reads, scheme included.
pub(super) fn salted_sha512(password: &[u8], salt: &[u8]) -> SecretText {
    let digest = Sha512::new().chain_update(password).chain_update(salt).finalize();
    Secret::new(format!("{{SSHA512}}{}", STANDARD.encode([digest.as_slice(), salt].concat())))
}

fn verify_blowfish(password: &[u8], hash: &str) -> bool {
    is_bearable_blowfish(hash) && bcrypt::verify(password, hash).unwrap_or(false)
}

fn is_bearable_blowfish(hash: &str) -> bool {
    hash.parse::<bcrypt::HashParts>().is_ok_and(|parts| parts.get_cost() <= MAX_BLOWFISH_COST)
}

/// Whether a verified hash must be replaced by one of the default scheme.
fn is_foreign(hash: &SecretText) -> bool {
    !hash.expose().starts_with(SCHEME)
}

impl Service {
    /// Replaces an imported hash by one of the default scheme, now that the password is available. `None` if the
    /// password is no longer the right one.
    pub(crate) async fn with_own_hash(
        &self,
        mut credentials: Credentials,
        password: &SecretText,
        share: Share,
    ) -> Result<Option<Credentials>, Unavailable> {
        if !is_foreign(&credentials.password_hash) {
            return Ok(Some(credentials));
        }
        let (hash, accounts) = (self.hash(password.clone(), share).await?, self.0.store.accounts());
        let Credentials { email, password_hash: verified, .. } = &credentials;
        if accounts.replace_password_hash(email, verified, &hash, self.0.clock.now()).await? {
            credentials.password_hash = hash;
            return Ok(Some(credentials));
        }
        // Another login replaced the hash first, or the password was changed.
        let Some(stored) = accounts.credentials(email).await? else { return Ok(None) };
        let matches = self.verify(password.clone(), stored.password_hash.clone(), share).await?;
        Ok(Some(stored).filter(|stored| matches && stored.active))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn the_salt_has_sixteen_characters() {
        let hash = hash_password(&secret("correct horse"), 5000, &Salt).unwrap();
        let fields: Vec<&str> = hash.expose().split('$').collect();
        assert_eq!((fields[0], fields[1], fields[2], fields[3].len()), ("{SHA512-CRYPT}", "6", "rounds=5000", 16));
    }

    #[test]
    fn a_hash_made_by_crypt_verifies_and_nonsense_does_not() {
        // `openssl passwd -6 -salt saltstring 'Hello world!'`, also the first test vector of SHA-crypt.
        let vector =
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        assert!(verify_password(&secret("Hello world!"), &secret(vector)));
        assert!(verify_password(&secret("Hello world!"), &secret(&format!("{SCHEME}{vector}"))));
        for nonsense in ["", "{PLAIN}Hello world!", "$6$", "$6$$", "{SHA512-CRYPT}", "$5$saltstring$5B8vYYiY"] {
            assert!(!verify_password(&secret("Hello world!"), &secret(nonsense)), "{nonsense}");
        }
    }

    #[test]
    fn hashes_that_dovecot_made_verify_and_are_to_be_replaced() {
        for hash in [
            // `doveadm pw -s SSHA512 -p secret` and `-s BLF-CRYPT`.
            "{SSHA512}dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk=",
            "{BLF-CRYPT}$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.",
        ] {
            assert!(verify_password(&secret("secret"), &secret(hash)), "{hash}");
            assert!(!verify_password(&secret("Secret"), &secret(hash)), "{hash}");
            assert!(is_foreign(&secret(hash)));
        }
        for broken in ["{SSHA512}", "{SSHA512}c2hvcnQ=", "{SSHA512}*", "{BLF-CRYPT}", "{BLF-CRYPT}$2y$31$abc"] {
            assert!(!verify_password(&secret("secret"), &secret(broken)), "{broken}");
        }
    }

    #[test]
    fn the_scheme_of_crypt_is_taken_from_the_hash() {
        let blowfish = "$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";
        for hash in [blowfish.to_owned(), format!("{{CRYPT}}{blowfish}"), format!("{{blf-crypt}}{blowfish}")] {
            assert!(verify_password(&secret("secret"), &secret(&hash)), "{hash}");
        }
        for unknown in ["{CRYPT}$1$salt$hash", "{CRYPT}!", "{CRYPT}", "{MD5}x", "{PLAIN}secret", "secret", "", "{"] {
            assert!(!verify_password(&secret("secret"), &secret(unknown)));
        }
    }

    #[test]
    fn quick_refusals_are_known_so_that_timing_reveals_nothing() {
        let ours = hash_password(&secret("secret"), 1000, &Salt).unwrap();
        let blowfish = "{BLF-CRYPT}$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";
        assert!(!is_cheap(&ours) && !is_cheap(&secret(blowfish)));
        let salted =
            "{SSHA512}dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk=";
        for cheap in [salted, "{MD5-CRYPT}$1$salt$hash", "{CRYPT}!", "", "$6$", "$2y$05$", "{BLF-CRYPT}$2y$31$abc"] {
            assert!(is_cheap(&secret(cheap)), "{cheap}");
        }
        assert!(is_cheap(&secret("$6$rounds=999999999$saltstring$abc")), "it is not even tried");
    }

    #[test]
    fn the_highest_hash_rounds_are_verified_and_no_more() {
        let most = *PASSWORD_ROUNDS.end();
        let hash = |rounds| format!("$6$rounds={rounds}$saltstring$abc");
        assert!(sha512_crypt(&hash(most)).is_some());
        assert!(sha512_crypt(&hash(most + 1)).is_none());
    }

    #[test]
    fn a_hash_that_asks_for_too_much_work_verifies_nothing() {
        assert!(!verify_password(&secret("x"), &secret("$6$rounds=999999999$saltstring$abc")));
    }

    /// Hashes of other servers, malformed variants of them, and arbitrary text; none is slow to verify.
    fn hash_of_others() -> impl Strategy<Value = String> {
        let pattern = |text: String| proptest::string::string_regex(&text).unwrap();
        let scheme = "(\\{(SHA512-CRYPT|sha512-crypt|SSHA512|BLF-CRYPT|CRYPT|PLAIN|[A-Z.0-9-]{0,6})\\}?)?";
        let crypt = "(\\$6\\$(rounds=([0-9]{0,3}|-1|[0-9]{8,12}|x)\\$)?[./0-9A-Za-z$=]{0,18}\\$?([./0-9A-Za-z]{86}|[./0-9A-Za-z]{0,90}))";
        let blowfish = "(\\$2[abxy]?\\$(0[0-5]|3[0-9]|99|[0-9]{0,4})\\$?([./0-9A-Za-z]{53}|[./0-9A-Za-z]{0,60}))";
        let base64 = "([A-Za-z0-9+/]{86}==|([A-Za-z0-9+/]{4}){22,26}|[A-Za-z0-9+/=]{0,100})";
        prop_oneof![
            pattern(format!("{scheme}{crypt}")),
            pattern(format!("{scheme}{blowfish}")).prop_filter("cheap enough for a test", |hash| {
                hash.split('$')
                    .nth(2)
                    .and_then(|cost| cost.parse().ok())
                    .is_none_or(|cost: u32| !(6..=MAX_BLOWFISH_COST).contains(&cost))
            }),
            pattern(format!("{scheme}{base64}")),
            pattern(format!("{scheme}\\PC{{0,20}}")),
        ]
    }

    proptest! {
        #[test]
        fn any_hash_verifies_or_not(hash in hash_of_others(), password in "\\PC{0,10}|\\PC{60,90}") {
            let (hash, password) = (secret(&hash), secret(&password));
            let _ = is_cheap(&hash);
            // A made-up hash matches no known password.
            prop_assert!(!verify_password(&password, &hash));
        }
    }
}
