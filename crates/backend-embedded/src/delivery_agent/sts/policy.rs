//! The texts of MTA-STS: the record in DNS, and the policy.

use std::time::Duration;

/// Longest time for which a policy is kept: about a year (RFC 8461 section 3.2).
const MAX_AGE_SECONDS: u64 = 31_557_600;
/// Maximum number of patterns that are kept. Few domains have more than a handful of servers.
const MAX_PATTERNS: usize = 100;
/// Maximum number of bytes of all patterns of a policy. The policies of many domains are stored.
const MAX_PATTERN_BYTES: usize = 4 * 1024;

/// A domain's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::delivery_agent) struct Policy {
    pub(in crate::delivery_agent) mode: Mode,
    /// Patterns of the domain's servers.
    patterns: Vec<String>,
    /// How long it is valid.
    pub(in crate::delivery_agent) max_age: Duration,
}

/// What happens to mail that cannot be sent by the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::delivery_agent) enum Mode {
    /// It is not delivered.
    Enforce,
    /// It is delivered, and the failure counted.
    Testing,
    /// The domain had a policy once.
    None,
}

impl Policy {
    /// Parses a policy (RFC 8461 section 3.2). Unknown fields are ignored, and of a repeated one the first counts.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let fields: Vec<_> = text.lines().filter_map(|line| line.split_once(':')).collect();
        let fields = || fields.iter().map(|(name, value)| (name.trim(), value.trim()));
        let first = |wanted: &str| fields().find_map(|(name, value)| (name == wanted).then_some(value));
        if first("version") != Some("STSv1") {
            return None;
        }
        let mode = match first("mode")? {
            "enforce" => Mode::Enforce,
            "testing" => Mode::Testing,
            "none" => Mode::None,
            _ => return None,
        };
        let seconds =
            first("max_age").filter(|age| age.len() <= 10 && age.bytes().all(|byte| byte.is_ascii_digit()))?;
        let max_age = Duration::from_secs(seconds.parse::<u64>().ok()?.min(MAX_AGE_SECONDS));
        let patterns = fields().filter(|(name, value)| *name == "mx" && !value.is_empty());
        let mut room = MAX_PATTERN_BYTES;
        let within = patterns.take(MAX_PATTERNS).map_while(|(_, value)| {
            room = room.checked_sub(value.len())?;
            Some(value.to_ascii_lowercase())
        });
        let patterns: Vec<_> = within.collect();
        (mode == Mode::None || !patterns.is_empty()).then_some(Self { mode, patterns, max_age })
    }

    /// Returns the text from which [`Policy::parse`] returns an equal policy.
    pub(super) fn to_text(&self) -> String {
        let mode = match self.mode {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        };
        let mut text = format!("version: STSv1\nmode: {mode}\nmax_age: {}\n", self.max_age.as_secs());
        for pattern in &self.patterns {
            text.extend(["mx: ", pattern, "\n"]);
        }
        text
    }

    /// Returns whether the policy allows a server. `*` stands for exactly one label (RFC 8461 section 4.1).
    pub(in crate::delivery_agent) fn allows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.patterns.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(suffix) => parent == Some(suffix),
            None => *pattern == host,
        })
    }
}

/// Returns the identifier of the policy from the TXT records; `None` unless exactly one is of MTA-STS (RFC 8461 section
/// 3.1).
pub(super) fn id_in(texts: &[String]) -> Option<String> {
    let mut records = texts.iter().filter_map(|text| {
        let (version, fields) = text.split_once(';')?;
        (version.trim_end() == "v=STSv1").then_some(fields)
    });
    let fields = records.next().filter(|_| records.next().is_none())?;
    let id = fields.split(';').find_map(|field| field.trim().strip_prefix("id="))?;
    let is_id = (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "version: STSv1\r\nmode: enforce\r\nmx: MX.example.org\r\nmx: *.example.net\nmax_age: 604800\n";

    #[test]
    fn what_is_no_policy_is_refused() {
        assert!(Policy::parse(TEXT.as_bytes()).is_some());
        for (part, other) in [
            ("STSv1", "STSv2"),
            ("version", "versions"),
            ("enforce", "Enforce"),
            ("604800", "-1"),
            ("604800", "12345678901"),
            ("604800", ""),
            ("max_age", "maxage"),
            ("mx:", "my:"),
        ] {
            assert_eq!(Policy::parse(TEXT.replace(part, other).as_bytes()), None, "{other}");
        }
        assert_eq!(Policy::parse(b"\xff"), None);
    }

    #[test]
    fn the_first_of_repeated_fields_counts() {
        let policy = Policy::parse(format!("{TEXT}mode: none\nmax_age: 1\nnew: x\n").as_bytes()).unwrap();
        assert_eq!((policy.mode, policy.max_age), (Mode::Enforce, Duration::from_secs(604_800)));
        let policy = Policy::parse(b"version: STSv1\nmode: none\nmax_age: 9999999999").unwrap();
        assert_eq!((policy.mode, policy.max_age.as_secs()), (Mode::None, MAX_AGE_SECONDS));
    }

    #[test]
    fn a_policy_takes_little_memory() {
        let long = format!("{TEXT}{}", format!("mx: {}.example.org\n", "a".repeat(3_000)).repeat(20));
        let policy = Policy::parse(long.as_bytes()).unwrap();
        assert!(policy.allows("mx.example.org") && policy.patterns.concat().len() <= MAX_PATTERN_BYTES);
    }

    #[test]
    fn a_star_is_one_label() {
        let policy = Policy::parse(TEXT.as_bytes()).unwrap();
        for host in ["mx.example.org", "MX.Example.Org.", "a.example.net"] {
            assert!(policy.allows(host), "{host}");
        }
        for host in ["example.org", "a.mx.example.org", "example.net", "a.b.example.net", "", ".", "*.example.org"] {
            assert!(!policy.allows(host), "{host}");
        }
    }

    #[test]
    fn one_record_has_the_identifier() {
        let id = |texts: &[&str]| id_in(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(id(&["v=spf1 -all", "v=STSv1; id=20261123a; x=y"]).as_deref(), Some("20261123a"));
        assert_eq!(id(&["v=STSv1 ;id=1;"]).as_deref(), Some("1"));
        let long = format!("v=STSv1; id={};", "a".repeat(33));
        for texts in [&[][..], &["v=STSv1; id=1", "v=STSv1; id=2"], &["v=STSv1; id="], &["v=STSv1; id=a-b"], &[&long]] {
            assert_eq!(id(texts), None, "{texts:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, text in "(version: STSv1\n)?(mode: \\PC{0,8}\n)?(mx: \\PC{0,9}\n){0,3}(max_age: [0-9]{0,12})?", host in "\\PC{0,20}") {
            let _ = Policy::parse(&bytes);
            let _ = id_in(&[String::from_utf8_lossy(&bytes).into_owned(), text.clone()]);
            if let Some(policy) = Policy::parse(text.as_bytes()) {
                let _ = policy.allows(&host);
                prop_assert!(policy.max_age.as_secs() <= MAX_AGE_SECONDS);
                prop_assert_eq!(Policy::parse(policy.to_text().as_bytes()), Some(policy));
            }
        }
    }
}
