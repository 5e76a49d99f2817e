//! Password hashes that another system made.

use mailapi_model::{Secret, SecretText, Violations};

use super::password::{PASSWORD_ROUNDS, Scheme, is_cheap, salted_sha512_parts, scheme_of};

/// A hash that logins can verify, with its scheme in braces. The next successful login replaces it, unless its scheme
/// is the default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedHash(SecretText);

impl ImportedHash {
    /// Maximum length in bytes; every hash of the supported schemes is shorter.
    pub const MAX_BYTES: usize = 512;

    /// Checks scheme and form of a hash. `{CRYPT}` and no scheme mean that of `crypt(3)`.
    ///
    /// # Errors
    /// A violation for `field`, without any part of the hash.
    #[expect(clippy::needless_pass_by_value, reason = "the text is a secret, which the caller must not keep")]
    pub fn parse(field: &str, text: String) -> Result<Self, Violations> {
        let refused = |message: &str| Violations::of(field, message);
        let Some((scheme, hash)) = scheme_of(&text) else {
            return Err(refused("must be a hash of the scheme {SHA512-CRYPT}, {SSHA512} or {BLF-CRYPT}"));
        };
        if text.len() > Self::MAX_BYTES || !is_well_formed(scheme, hash) {
            return Err(refused(&format!("is not a valid hash of the scheme {{{}}}", scheme.name())));
        }
        Ok(Self(Secret::new(format!("{{{}}}{hash}", scheme.name()))))
    }

    pub(crate) fn into_inner(self) -> SecretText {
        self.0
    }
}

/// Whether a hash of this scheme has its usual form, and verifying it is bearable.
pub(super) fn is_well_formed(scheme: Scheme, hash: &str) -> bool {
    match scheme {
        Scheme::Sha512Crypt => is_whole_sha512_crypt(hash),
        Scheme::SaltedSha512 => salted_sha512_parts(hash).is_some_and(|(_, salt)| !salt.is_empty()),
        Scheme::Blowfish => hash.len() == BLOWFISH_BYTES && !is_cheap(&Secret::new(hash.to_owned())),
    }
}

/// Length of every bcrypt hash in its usual form.
const BLOWFISH_BYTES: usize = 60;

/// Length of a SHA-512 digest in the base64 of `crypt(3)`.
const SHA512_CRYPT_DIGEST: usize = 86;

fn is_whole_sha512_crypt(hash: &str) -> bool {
    let rounds = hash.strip_prefix("$6$rounds=").and_then(|rest| rest.split('$').next());
    let bearable = rounds.is_none_or(|rounds| rounds.parse().is_ok_and(|rounds| PASSWORD_ROUNDS.contains(&rounds)));
    let digest = hash.rsplit('$').next().unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    let is_whole = digest.len() == SHA512_CRYPT_DIGEST && digest.bytes().all(is_digit);
    bearable && is_whole && !is_cheap(&Secret::new(hash.to_owned()))
}

/// What a new account logs in with.
#[derive(Debug, Clone)]
pub enum NewCredential {
    /// A password, already checked by the password rules.
    Password(SecretText),
    /// The hash of a password that only its owner has.
    Hash(ImportedHash),
}

impl NewCredential {
    /// Takes exactly one of both.
    ///
    /// # Errors
    /// Violations for `password` or `password_hash`.
    pub fn one_of(password: Option<SecretText>, hash: Option<ImportedHash>) -> Result<Self, Violations> {
        match (password, hash) {
            (Some(password), None) => Ok(Self::Password(password)),
            (None, Some(hash)) => Ok(Self::Hash(hash)),
            (None, None) => Err(Violations::of("password", "is required, unless there is a password_hash")),
            (Some(_), Some(_)) => Err(Violations::of("password_hash", "must be absent if there is a password")),
        }
    }
}

impl From<SecretText> for NewCredential {
    fn from(password: SecretText) -> Self {
        Self::Password(password)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::password::verify_password;
    use super::*;

    const CRYPT: &str =
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
    const SALTED: &str = "dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk=";
    const BLOWFISH: &str = "$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";

    fn parse(hash: &str) -> Result<String, String> {
        let parsed = ImportedHash::parse("password_hash", hash.to_owned());
        parsed.map(|hash| hash.0.into_inner()).map_err(|violations| violations.all()[0].message.clone())
    }

    #[test]
    fn unsupported_and_damaged_hashes_are_refused_without_a_trace() {
        for hash in ["", "secret", "{PLAIN}secret", "{MD5-CRYPT}$1$salt$secret", "{CRYPT}$5$secret", "{", "{secret"] {
            assert!(parse(hash).unwrap_err().starts_with("must be a hash of the scheme"), "{hash}");
        }
        let (short, long) = (&CRYPT[..CRYPT.len() - 1], "x".repeat(600));
        for hash in [
            format!("{{SHA512-CRYPT}}{short}"),
            format!("{CRYPT}x"),
            CRYPT.replace("$6$", "$6$rounds=999$"),
            CRYPT.replace("$6$", "$6$rounds=1000001$"),
            format!("{{SSHA512}}{}", &SALTED[..84]),
            format!("{{SSHA512}}{}==", &SALTED[..86]),
            format!("{{SSHA512}}{long}"),
            format!("{{BLF-CRYPT}}{}", BLOWFISH.replace("$05$", "$31$")),
            format!("{{BLF-CRYPT}}{}", &BLOWFISH[..58]),
            "{SSHA512}secret".to_owned(),
        ] {
            let message = parse(&hash).unwrap_err();
            assert!(message.starts_with("is not a valid hash") && !message.contains("secret"), "{hash}: {message}");
        }
    }

    #[test]
    fn supported_hashes_are_kept_with_their_scheme() {
        for (given, kept) in [
            (CRYPT.to_owned(), format!("{{SHA512-CRYPT}}{CRYPT}")),
            (format!("{{crypt}}{CRYPT}"), format!("{{SHA512-CRYPT}}{CRYPT}")),
            (format!("{{ssha512}}{SALTED}"), format!("{{SSHA512}}{SALTED}")),
            (BLOWFISH.to_owned(), format!("{{BLF-CRYPT}}{BLOWFISH}")),
        ] {
            assert_eq!(parse(&given), Ok(kept));
        }
        assert_eq!(format!("{:?}", ImportedHash::parse("x", CRYPT.to_owned())), "Ok(ImportedHash(Secret(…)))");
    }

    #[test]
    fn exactly_one_of_password_and_hash_is_taken() {
        let hash = || ImportedHash::parse("password_hash", CRYPT.to_owned()).ok();
        let password = || Some(Secret::new("secret".to_owned()));
        let refused = |password, hash| NewCredential::one_of(password, hash).unwrap_err().all()[0].field.clone();
        assert_eq!(refused(None, None), "password");
        assert_eq!(refused(password(), hash()), "password_hash");
        assert!(NewCredential::one_of(None, hash()).is_ok() && NewCredential::one_of(password(), None).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_verifiable(
            scheme in "(\\{(SHA512-CRYPT|ssha512|BLF-CRYPT|CRYPT|[A-Z]{0,5})\\}?)?",
            hash in "(\\$6\\$|\\$2y\\$05\\$)?[./0-9A-Za-z$=]{0,100}|\\PC{0,20}",
        ) {
            if let Ok(kept) = parse(&format!("{scheme}{hash}")) {
                // Verification does not panic, and refuses other passwords.
                prop_assert!(!verify_password(&Secret::new("another".to_owned()), &Secret::new(kept)));
            }
        }
    }
}
