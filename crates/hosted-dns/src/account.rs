//! An account at a provider.

use std::collections::BTreeMap;

use mailapi_model::Secret;

use crate::providers::{ProviderInfo, provider};

/// Maximum length of a credential. Tokens have some hundred octets.
const MAX_CREDENTIAL: usize = 4096;
/// Minimum length of values that are removed from messages: shorter ones are too weak for secrets, and occur in many words.
const MIN_SCRUBBED: usize = 4;
/// Length of the start by which a longer credential is recognized.
const RECOGNIZED: usize = 8;

/// An account at a provider, and the one zone that is changed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedAccount {
    provider: &'static ProviderInfo,
    credentials: BTreeMap<String, Secret<String>>,
    zone: String,
}

/// The values do not form a valid account. Neither `Display` nor `Debug` shows a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAccount {
    /// No provider has this name.
    #[error("the provider is not supported")]
    UnknownProvider,
    /// The account lacks a field.
    #[error("`{0}` is missing")]
    MissingField(&'static str),
    /// The provider has no such field.
    #[error("an account of this provider has other fields")]
    UnknownField,
    /// The value is too long, or has a character that no HTTP header takes.
    #[error("`{0}` must have 1 to 4096 printable ASCII characters without spaces at its ends")]
    InvalidField(&'static str),
    /// The zone is not a domain name.
    #[error("the zone is not a domain name")]
    InvalidZone,
}

impl HostedAccount {
    /// Checks the values of an account. Empty optional fields are as good as absent ones.
    ///
    /// # Errors
    /// See [`InvalidAccount`].
    pub fn new(
        provider_name: &str,
        credentials: impl IntoIterator<Item = (String, Secret<String>)>,
        zone: &str,
    ) -> Result<Self, InvalidAccount> {
        let info = provider(provider_name).ok_or(InvalidAccount::UnknownProvider)?;
        let given = credentials.into_iter().filter(|(_, value)| !value.expose().is_empty());
        let credentials: BTreeMap<_, _> = given.collect();
        for (name, value) in &credentials {
            let field = info.field(name).ok_or(InvalidAccount::UnknownField)?;
            if !is_credential(value.expose()) {
                return Err(InvalidAccount::InvalidField(field.name));
            }
        }
        for field in info.fields.iter().filter(|field| field.is_required) {
            if !credentials.contains_key(field.name) {
                return Err(InvalidAccount::MissingField(field.name));
            }
        }
        let zone = dns_name(zone).ok_or(InvalidAccount::InvalidZone)?;
        Ok(Self { provider: info, credentials, zone })
    }

    /// Returns the provider.
    #[must_use]
    pub const fn provider(&self) -> &'static ProviderInfo {
        self.provider
    }

    /// Returns the zone in lower case, without the final dot.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Returns the values by the names of their fields.
    #[must_use]
    pub const fn credentials(&self) -> &BTreeMap<String, Secret<String>> {
        &self.credentials
    }

    /// Returns a value; every call needs a review.
    #[must_use]
    pub fn credential(&self, field: &str) -> Option<&str> {
        self.credentials.get(field).map(|value| value.expose().as_str())
    }

    /// Whether the name is the zone's, or below it.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        name.strip_suffix(self.zone.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Replaces each credential in a text of a provider, which may repeat a request, by `…`.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let given = self.credentials.values().map(|value| value.expose());
        let mut values: Vec<String> =
            given.flat_map(|value| [value.clone(), value.escape_default().to_string()]).collect();
        // A long value may contain a short one.
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        values.retain(|value| value.len() >= MIN_SCRUBBED);
        values.into_iter().fold(text.to_owned(), |text, value| without(&text, &value))
    }
}

/// Replaces a value, also if a reader of a long answer has cut its end off.
fn without(text: &str, value: &str) -> String {
    let (start, end) = value.split_at(value.len().min(RECOGNIZED));
    let mut parts = text.split(start);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let repeated = part.bytes().zip(end.bytes()).take_while(|(found, octet)| found == octet).count();
        clean.push('…');
        // Credentials are ASCII, so this is between two characters.
        clean.push_str(part.get(repeated..).unwrap_or_default());
    }
    clean
}

/// Returns a domain name in lower case, without the final dot. Only letters, digits, hyphens and underscores are allowed:
/// the library puts names into the paths of requests.
#[must_use]
pub fn dns_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    (name.len() <= 253 && name.split('.').all(is_label)).then_some(name)
}

/// The library leaves out a header whose value has other characters, without an error.
fn is_credential(value: &str) -> bool {
    value.len() <= MAX_CREDENTIAL && value.trim() == value && value.bytes().all(|octet| matches!(octet, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(provider: &str, fields: &[(&str, &str)]) -> Result<HostedAccount, InvalidAccount> {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned())));
        HostedAccount::new(provider, fields, "Example.org.")
    }

    #[test]
    fn an_account_needs_the_fields_of_its_provider() {
        assert_eq!(account("acme", &[]), Err(InvalidAccount::UnknownProvider));
        assert_eq!(account("desec", &[]), Err(InvalidAccount::MissingField("token")));
        assert_eq!(account("desec", &[("token", "")]), Err(InvalidAccount::MissingField("token")));
        assert_eq!(account("desec", &[("token", "a"), ("b", "c")]), Err(InvalidAccount::UnknownField));
        for invalid in ["a\r\nHost: b", " a", "é", &"a".repeat(MAX_CREDENTIAL + 1)] {
            assert_eq!(account("desec", &[("token", invalid)]), Err(InvalidAccount::InvalidField("token")));
        }
        let fields = [("access_key_id", "AKIA"), ("secret_access_key", "s/+"), ("region", "")];
        let valid = account("route53", &fields).unwrap();
        assert_eq!((valid.zone(), valid.credential("access_key_id")), ("example.org", Some("AKIA")));
        assert_eq!(valid.credential("region"), None);
        assert_eq!(HostedAccount::new("desec", [], "a..b"), Err(InvalidAccount::MissingField("token")));
    }

    #[test]
    fn no_form_of_an_account_shows_a_secret() {
        let account = account("desec", &[("token", "canary-1")]).unwrap();
        assert!(!format!("{account:?}").contains("canary"));
        assert_eq!(account.scrub("Token canary-1 is invalid: canary-1"), "Token … is invalid: …");
    }

    #[test]
    fn long_secrets_are_scrubbed_before_their_parts() {
        let fields = [("api_key", "abcd"), ("secret_api_key", "abcd-efgh")];
        assert_eq!(account("porkbun", &fields).unwrap().scrub("abcd-efgh and abcd"), "… and …");
    }

    #[test]
    fn cut_and_escaped_secrets_are_scrubbed_too() {
        let account = account("desec", &[("token", "canary-\"1\"-234567")]).unwrap();
        assert_eq!(account.scrub(r#"{"a":"canary-\"1\"-234567"}"#), r#"{"a":"…"}"#);
        assert_eq!(account.scrub("(body: canary-\"1\"-23)"), "(body: …)");
        assert_eq!(account.scrub("a canary"), "a canary");
    }

    #[test]
    fn a_zone_contains_itself_and_names_below() {
        let account = account("desec", &[("token", "a")]).unwrap();
        assert!(account.contains("example.org") && account.contains("_dmarc.example.org"));
        assert!(!account.contains("badexample.org") && !account.contains("org") && !account.contains("example.com"));
    }

    #[test]
    fn names_with_other_characters_are_none() {
        assert_eq!(dns_name("_Dmarc.Example.org."), Some("_dmarc.example.org".to_owned()));
        for other in ["", ".", "a..b", "*.a", "a/b", "a?b", "a b", "a%2fb", "é.org", &"a".repeat(64), "a.\n"] {
            assert_eq!(dns_name(other), None, "{other}");
        }
        assert_eq!(dns_name(&["a"; 128].join(".")), None);
    }

    proptest! {
        #[test]
        fn a_scrubbed_text_has_no_secret(secret in "[ -~]{4,12}", before in ".{0,20}", after in ".{0,20}") {
            prop_assume!(secret.trim() == secret);
            let account = account("desec", &[("token", &secret)]).unwrap();
            let scrubbed = account.scrub(&format!("{before}{secret}{after}"));
            prop_assert!(!scrubbed.contains(&secret), "{}", scrubbed);
        }
    }
}
