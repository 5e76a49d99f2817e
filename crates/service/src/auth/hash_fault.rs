//! Why no password can match a stored hash.

use mailapi_model::SecretText;

use super::imported_hash::is_well_formed;
use super::password::{MAX_BLOWFISH_COST, PASSWORD_ROUNDS, Scheme, salted_sha512_parts, scheme_of};

/// Maximum length of a scheme name in messages. Dovecot's names, such as `SHA512-CRYPT.HEX`, are shorter.
const MAX_SCHEME_BYTES: usize = 24;

/// Schemes that hashes show by their beginning, without a name in braces.
const BEGINNINGS: [(&str, &str); 24] = [
    ("$1$", "MD5-CRYPT"),
    ("$5$", "SHA256-CRYPT"),
    ("$y$", "yescrypt"),
    ("$gy$", "gost-yescrypt"),
    ("$7$", "scrypt"),
    ("$sha1$", "SHA1-CRYPT"),
    ("$md5", "SunMD5"),
    ("$3$", "NT-HASH"),
    ("$apr1$", "APR1"),
    ("$argon2id$", "ARGON2ID"),
    ("$argon2i$", "ARGON2I"),
    ("$argon2d$", "ARGON2D"),
    ("$bcrypt-sha256$", "bcrypt-sha256 of passlib"),
    ("$pbkdf2", "PBKDF2 of passlib"),
    ("$scrypt$", "scrypt of passlib"),
    ("$P$", "phpass"),
    ("$H$", "phpass"),
    ("$S$", "phpass with SHA-512, of Drupal"),
    ("pbkdf2_", "PBKDF2 of Django"),
    ("argon2$", "ARGON2 of Django"),
    ("bcrypt_sha256$", "bcrypt-sha256 of Django"),
    ("bcrypt$", "bcrypt of Django"),
    ("scrypt$", "scrypt of Django"),
    ("_", "BSDi DES-CRYPT"),
];

/// Returns why no password can match this hash, for messages; `None` if one can. The text names the scheme and never
/// contains a part of the hash.
pub(crate) fn hash_fault(hash: &SecretText) -> Option<String> {
    let hash = hash.expose();
    match scheme_of(hash) {
        None => Some(unsupported(hash)),
        Some((scheme, rest)) => fault_of(scheme, rest).map(|fault| format!("{{{}}} {fault}", scheme.name())),
    }
}

/// Names the scheme of a hash that cannot be verified.
fn unsupported(hash: &str) -> String {
    let (name, rest) = match hash.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((name, rest)) => (name, rest),
        None => ("", hash),
    };
    if !name.is_empty() && !name.eq_ignore_ascii_case("CRYPT") {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let fits = name.len() <= MAX_SCHEME_BYTES && name.chars().all(is_part);
        return if fits { format!("{{{}}}", name.to_ascii_uppercase()) } else { UNNAMED.to_owned() };
    }
    if let Some((beginning, name)) = BEGINNINGS.iter().find(|(beginning, _)| is_crypt(rest, beginning)) {
        return if beginning.contains('$') { format!("{name} ({beginning})") } else { (*name).to_owned() };
    }
    let is_hex = rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match rest.len() {
        0 => "an empty hash",
        _ if rest.starts_with(['!', '*']) => "a hash locked by `!` or `*`",
        13 if rest.bytes().all(is_crypt_digit) => "DES-CRYPT or plain text",
        32 if is_hex => "MD5 in hexadecimal (PLAIN-MD5)",
        40 if is_hex => "SHA1 in hexadecimal",
        64 if is_hex => "SHA256 in hexadecimal",
        128 if is_hex => "SHA512 in hexadecimal",
        _ => UNNAMED,
    }
    .to_owned()
}

/// Shown for text that shows no scheme.
const UNNAMED: &str = "plain text or an unknown scheme";

fn is_crypt(hash: &str, beginning: &str) -> bool {
    // Twenty characters of a BSDi hash; any plain text may begin with `_`.
    hash.starts_with(beginning) && (beginning != "_" || (hash.len() == 20 && hash[1..].bytes().all(is_crypt_digit)))
}

const fn is_crypt_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/')
}

/// What is wrong with a hash of a supported scheme.
fn fault_of(scheme: Scheme, hash: &str) -> Option<String> {
    if hash.ends_with(|c: char| c.is_ascii_whitespace()) {
        return Some("followed by blanks, as CHAR(n) columns pad it".to_owned());
    }
    let is_usable = match scheme {
        // A hash without a salt is weak, but passwords match it.
        Scheme::SaltedSha512 => salted_sha512_parts(hash).is_some(),
        Scheme::Sha512Crypt | Scheme::Blowfish => is_well_formed(scheme, hash),
    };
    let fault = || match scheme {
        Scheme::Sha512Crypt => sha512_crypt_fault(hash),
        Scheme::Blowfish if blowfish_cost(hash).is_some_and(|cost| cost > MAX_BLOWFISH_COST) => {
            format!("with a cost above {MAX_BLOWFISH_COST}")
        }
        Scheme::Blowfish | Scheme::SaltedSha512 => DAMAGED.to_owned(),
    };
    (!is_usable).then(fault)
}

const DAMAGED: &str = "that is damaged or cut off";

fn sha512_crypt_fault(hash: &str) -> String {
    let (least, most) = (PASSWORD_ROUNDS.start(), PASSWORD_ROUNDS.end());
    let rest = hash.strip_prefix("$6$").unwrap_or_default();
    let (rounds, rest) = match rest.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) {
        Some((rounds, rest)) => (Some(rounds), rest),
        None => (None, rest),
    };
    if rounds.is_some_and(|rounds| !rounds.parse().is_ok_and(|rounds| PASSWORD_ROUNDS.contains(&rounds))) {
        return format!("with rounds outside {least} to {most}");
    }
    if rest.starts_with('$') { "with an empty salt".to_owned() } else { DAMAGED.to_owned() }
}

fn blowfish_cost(hash: &str) -> Option<u32> {
    hash.split('$').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use mailapi_model::Secret;
    use proptest::prelude::*;

    use super::super::password::verify_password;
    use super::*;

    const DIGEST: &str = "svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";

    fn fault(hash: &str) -> Option<String> {
        hash_fault(&Secret::new(hash.to_owned()))
    }

    #[test]
    fn each_scheme_has_its_real_name() {
        for (hash, name) in [
            ("{PLAIN}hidden", "{PLAIN}"),
            ("{argon2id}$argon2id$hidden", "{ARGON2ID}"),
            ("{CRYPT}$1$hidden$hidden", "MD5-CRYPT ($1$)"),
            ("$5$hidden$hidden", "SHA256-CRYPT ($5$)"),
            ("{CRYPT}$y$j9T$hidden", "yescrypt ($y$)"),
            ("{CRYPT}$bcrypt-sha256$v=2,t=2b,r=13$hidden", "bcrypt-sha256 of passlib ($bcrypt-sha256$)"),
            ("{CRYPT}$argon2id$v=19$hidden", "ARGON2ID ($argon2id$)"),
            ("{CRYPT}$P$hidden", "phpass ($P$)"),
            ("{CRYPT}pbkdf2_sha256$1000$hidden", "PBKDF2 of Django"),
            ("{CRYPT}$pbkdf2-sha512$25000$hidden", "PBKDF2 of passlib ($pbkdf2)"),
            ("{CRYPT}hiddenhidden0", "DES-CRYPT or plain text"),
            ("{CRYPT}5f4dcc3b5aa765d61d8327deb882cf99", "MD5 in hexadecimal (PLAIN-MD5)"),
            ("{CRYPT}hidden", UNNAMED),
            ("{CRYPT}_hidden", UNNAMED),
            ("{hid den}x", UNNAMED),
            ("{0123456789012345678901234567890}x", UNNAMED),
            ("{CRYPT}{hidden", UNNAMED),
            ("{hidden", UNNAMED),
            ("", "an empty hash"),
            ("{CRYPT}", "an empty hash"),
            ("{CRYPT}!", "a hash locked by `!` or `*`"),
            ("{CRYPT}!$6$salt$hidden", "a hash locked by `!` or `*`"),
            ("{CRYPT}!{SHA512-CRYPT}$6$salt$hidden", "a hash locked by `!` or `*`"),
        ] {
            assert_eq!(fault(hash).as_deref(), Some(name), "{hash}");
        }
    }

    #[test]
    fn hashes_of_supported_schemes_that_match_nothing_have_a_reason() {
        for (hash, reason) in [
            (format!("$6$saltstring${DIGEST}    "), "{SHA512-CRYPT} followed by blanks, as CHAR(n) columns pad it"),
            (format!("$6$rounds=1000001$salt${DIGEST}"), "{SHA512-CRYPT} with rounds outside 1000 to 1000000"),
            (format!("$6$rounds=x$salt${DIGEST}"), "{SHA512-CRYPT} with rounds outside 1000 to 1000000"),
            (format!("$6$${DIGEST}"), "{SHA512-CRYPT} with an empty salt"),
            (format!("$6$rounds=5000$${DIGEST}"), "{SHA512-CRYPT} with an empty salt"),
            (format!("$6$salt${}", &DIGEST[1..]), "{SHA512-CRYPT} that is damaged or cut off"),
            (
                "{BLF-CRYPT}$2y$16$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.".to_owned(),
                "{BLF-CRYPT} with a cost above 15",
            ),
            ("{BLF-CRYPT}$2y$05$short".to_owned(), "{BLF-CRYPT} that is damaged or cut off"),
            ("{SSHA512}c2hvcnQ=".to_owned(), "{SSHA512} that is damaged or cut off"),
        ] {
            assert_eq!(fault(&hash).as_deref(), Some(reason), "{hash}");
        }
    }

    #[test]
    fn usable_hashes_have_no_fault() {
        for hash in [
            format!("$6$saltstring${DIGEST}"),
            format!("{{CRYPT}}$6$rounds=656000$saltstring${DIGEST}"),
            "{blf-crypt}$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.".to_owned(),
            "{SSHA512}dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk="
                .to_owned(),
        ] {
            assert_eq!(fault(&hash), None, "{hash}");
        }
    }

    proptest! {
        #[test]
        fn a_hash_with_a_fault_is_not_repeated_and_matches_nothing(
            scheme in "(\\{(SHA512-CRYPT|SSHA512|CRYPT)\\})?",
            hash in "(\\$6\\$)?[a-z$]{0,100}hidden\\PC{0,20}[ !*]?",
        ) {
            let hash = format!("{scheme}{hash}");
            if let Some(fault) = fault(&hash) {
                prop_assert!(!fault.contains("hidden"));
                prop_assert!(!verify_password(&Secret::new("hidden".to_owned()), &Secret::new(hash)));
            }
        }
    }
}
