//! Records of a zone in the syntax of master files (RFC 1035 section 5.1).

use std::fmt;
use std::str::FromStr;

/// The longest string of a TXT record (RFC 1035 section 3.3).
const MAX_STRING: usize = 255;

/// The types of records that are published for mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// The name is an alias (RFC 1034 section 3.6.2).
    Cname,
    /// A mail exchange (RFC 5321 section 5).
    Mx,
    /// The place of a service (RFC 2782).
    Srv,
    /// The keys of a TLS server (RFC 6698).
    Tlsa,
    /// A text (RFC 1035 section 3.3.14).
    Txt,
}

impl RecordKind {
    /// Every type.
    pub const ALL: [Self; 5] = [Self::Cname, Self::Mx, Self::Srv, Self::Tlsa, Self::Txt];

    /// Returns the name of the type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cname => "CNAME",
            Self::Mx => "MX",
            Self::Srv => "SRV",
            Self::Tlsa => "TLSA",
            Self::Txt => "TXT",
        }
    }
}

/// The text is not a record of this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a record that can be published")]
pub struct InvalidRecord;

impl FromStr for RecordKind {
    type Err = InvalidRecord;

    fn from_str(text: &str) -> Result<Self, InvalidRecord> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(InvalidRecord)
    }
}

/// The data of one record. Host names are lower case, without the final dot; `.` alone is the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordData {
    /// The host of which the name is an alias.
    Cname(String),
    /// A host that receives the domain's mail.
    Mx {
        /// Lower values are tried first.
        preference: u16,
        /// The host.
        exchange: String,
    },
    /// A host with a service.
    Srv {
        /// Lower values are tried first.
        priority: u16,
        /// The share among records of one priority.
        weight: u16,
        /// The port.
        port: u16,
        /// The host.
        target: String,
    },
    /// A key or certificate of a TLS server.
    Tlsa(TlsaRecord),
    /// The strings of a text. Servers compare them one by one: the same text with another split is another record.
    Txt(Vec<Vec<u8>>),
}

/// One TLSA record, with the fields of RFC 6698 section 2.1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TlsaRecord {
    /// Certificate usage.
    pub usage: u8,
    /// Selector.
    pub selector: u8,
    /// Matching type.
    pub matching: u8,
    /// Certificate association data.
    pub data: Vec<u8>,
}

impl TlsaRecord {
    /// Names a public key by its SHA-256 (`3 1 1`), the form that RFC 7672 section 3.1 recommends.
    #[must_use]
    pub fn of_key(digest: [u8; 32]) -> Self {
        Self { usage: 3, selector: 1, matching: 1, data: digest.to_vec() }
    }
}

/// The records of one name and type, with their common TTL (RFC 2181 section 5). An absent record set has no records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSet {
    /// Seconds for which others may keep the records.
    pub ttl: u32,
    /// The records, in the order of the server's answer.
    pub records: Vec<RecordData>,
}

impl RecordSet {
    /// Reads records of one type, one on each line.
    ///
    /// # Errors
    /// [`InvalidRecord`] for a line that is none.
    pub fn parse(kind: RecordKind, ttl: u32, lines: &str) -> Result<Self, InvalidRecord> {
        let records = lines.lines().map(|line| RecordData::parse(kind, line)).collect::<Result<_, _>>()?;
        Ok(Self { ttl, records })
    }

    /// Returns the records, one on each line.
    #[must_use]
    pub fn lines(&self) -> String {
        let lines: Vec<_> = self.records.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    /// Whether both have the same records, in any order.
    #[must_use]
    pub fn has_records_of(&self, other: &Self) -> bool {
        let sorted = |set: &Self| {
            let mut records = set.records.clone();
            records.sort();
            records
        };
        sorted(self) == sorted(other)
    }
}

impl RecordData {
    /// Returns a text, split into strings of 255 octets, as others split it.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let strings: Vec<_> = text.as_bytes().chunks(MAX_STRING).map(<[u8]>::to_vec).collect();
        Self::Txt(if strings.is_empty() { vec![Vec::new()] } else { strings })
    }

    /// Returns the joined strings of a text (RFC 7208 section 3.3); `None` for other records.
    #[must_use]
    pub fn joined_text(&self) -> Option<String> {
        match self {
            Self::Txt(strings) => Some(String::from_utf8_lossy(&strings.concat()).into_owned()),
            _ => None,
        }
    }

    /// Returns the type.
    #[must_use]
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Cname(_) => RecordKind::Cname,
            Self::Mx { .. } => RecordKind::Mx,
            Self::Srv { .. } => RecordKind::Srv,
            Self::Tlsa(_) => RecordKind::Tlsa,
            Self::Txt(_) => RecordKind::Txt,
        }
    }

    /// Reads data of this type in the syntax of master files, with absolute names.
    ///
    /// # Errors
    /// [`InvalidRecord`] for another text.
    pub fn parse(kind: RecordKind, text: &str) -> Result<Self, InvalidRecord> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match (kind, &words[..]) {
            (RecordKind::Txt, _) => Ok(Self::Txt(quoted_strings(text)?)),
            (RecordKind::Cname, [target]) => Ok(Self::Cname(host(target)?)),
            (RecordKind::Mx, [preference, exchange]) => {
                Ok(Self::Mx { preference: number(preference)?, exchange: host(exchange)? })
            }
            (RecordKind::Srv, [priority, weight, port, target]) => Ok(Self::Srv {
                priority: number(priority)?,
                weight: number(weight)?,
                port: number(port)?,
                target: host(target)?,
            }),
            // The hexadecimal text may have spaces (RFC 6698 section 2.2).
            (RecordKind::Tlsa, [usage, selector, matching, data @ ..]) => Ok(Self::Tlsa(TlsaRecord {
                usage: number(usage)?,
                selector: number(selector)?,
                matching: number(matching)?,
                data: hexadecimal(&data.concat())?,
            })),
            _ => Err(InvalidRecord),
        }
    }
}

impl fmt::Display for RecordData {
    /// `10 mx.example.org.` or `"v=spf1 mx -all"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cname(target) => f.write_str(&absolute(target)),
            Self::Mx { preference, exchange } => write!(f, "{preference} {}", absolute(exchange)),
            Self::Srv { priority, weight, port, target } => {
                write!(f, "{priority} {weight} {port} {}", absolute(target))
            }
            Self::Tlsa(TlsaRecord { usage, selector, matching, data }) => {
                write!(f, "{usage} {selector} {matching} ")?;
                data.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
            Self::Txt(strings) => {
                let quoted: Vec<_> = strings.iter().map(|string| quoted(string)).collect();
                f.write_str(&quoted.join(" "))
            }
        }
    }
}

/// Returns one string in quotes.
fn quoted(octets: &[u8]) -> String {
    let escaped = octets.iter().map(|octet| match octet {
        b'"' | b'\\' => format!("\\{}", char::from(*octet)),
        b' '..=b'~' => char::from(*octet).to_string(),
        _ => format!("\\{octet:03}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn absolute(host: &str) -> String {
    if host == "." { host.to_owned() } else { format!("{host}.") }
}

fn number<T: FromStr>(text: &str) -> Result<T, InvalidRecord> {
    text.parse().map_err(|_| InvalidRecord)
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, InvalidRecord> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |octet: u8| char::from(octet).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let octets = pairs.iter().map(|[high, low]| Some(digit(*high)? * 16 + digit(*low)?)).collect::<Option<Vec<_>>>();
    octets.filter(|octets| !octets.is_empty() && rest.is_empty()).ok_or(InvalidRecord)
}

fn host(text: &str) -> Result<String, InvalidRecord> {
    match text.strip_suffix('.') {
        Some("") => Ok(".".to_owned()),
        Some(host) => Ok(host.to_ascii_lowercase()),
        None => Err(InvalidRecord),
    }
}

/// Reads quoted strings with spaces between them.
fn quoted_strings(text: &str) -> Result<Vec<Vec<u8>>, InvalidRecord> {
    let (mut strings, mut rest) = (Vec::new(), text.trim_start().as_bytes());
    while let [b'"', after @ ..] = rest {
        let (string, after) = quoted_string(after)?;
        strings.push(string);
        rest = after.trim_ascii_start();
    }
    if strings.is_empty() || !rest.is_empty() { Err(InvalidRecord) } else { Ok(strings) }
}

/// Reads up to the closing quote. Returns the octets, and what follows.
fn quoted_string(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), InvalidRecord> {
    let mut octets = Vec::new();
    loop {
        let (octet, after) = match rest {
            [b'"', after @ ..] if octets.len() <= MAX_STRING => return Ok((octets, after)),
            [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', after @ ..] => {
                let digits = [a, b, c].map(|digit| u16::from(digit - b'0'));
                let value = digits[0] * 100 + digits[1] * 10 + digits[2];
                (u8::try_from(value).map_err(|_| InvalidRecord)?, after)
            }
            [b'\\', octet @ b' '..=b'~', after @ ..] if !octet.is_ascii_digit() => (*octet, after),
            [octet @ b' '..=b'~', after @ ..] if !matches!(octet, b'"' | b'\\') => (*octet, after),
            _ => return Err(InvalidRecord),
        };
        octets.push(octet);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        for (kind, text) in [
            (RecordKind::Mx, "10 mx.example.org."),
            (RecordKind::Mx, "0 ."),
            (RecordKind::Srv, "0 1 993 mx.example.org."),
            (RecordKind::Cname, "mx.example.org."),
            (RecordKind::Tlsa, "3 1 1 00ff7f"),
            (RecordKind::Txt, "\"v=spf1 mx -all\""),
            (RecordKind::Txt, "\"a\\\"b\\\\\" \"\" \"\\195\\169\""),
        ] {
            assert_eq!(RecordData::parse(kind, text).unwrap().to_string(), text);
        }
        assert_eq!(
            RecordData::parse(RecordKind::Tlsa, "3 1 1 00FF 7f"),
            RecordData::parse(RecordKind::Tlsa, "3 1 1 00ff7f")
        );
        assert_eq!(
            RecordData::parse(RecordKind::Mx, "10 MX.Example.org."),
            RecordData::parse(RecordKind::Mx, "10 mx.example.org.")
        );
    }

    #[test]
    fn other_texts_are_no_records() {
        for (kind, text) in [
            (RecordKind::Mx, "10 mx.example.org"),
            (RecordKind::Mx, "70000 mx.example.org."),
            (RecordKind::Mx, "mx.example.org."),
            (RecordKind::Cname, "a. b."),
            (RecordKind::Tlsa, "3 1 1"),
            (RecordKind::Tlsa, "3 1 1 0"),
            (RecordKind::Tlsa, "3 1 1 0g"),
            (RecordKind::Tlsa, "256 1 1 00"),
            (RecordKind::Txt, "v=spf1"),
            (RecordKind::Txt, "\"a"),
            (RecordKind::Txt, "\"a\\300\""),
            (RecordKind::Txt, "\"a\" b"),
            (RecordKind::Txt, ""),
        ] {
            assert_eq!(RecordData::parse(kind, text), Err(InvalidRecord), "{text}");
        }
        assert!(RecordData::parse(RecordKind::Txt, &format!("\"{}\"", "a".repeat(256))).is_err());
    }

    #[test]
    fn sets_are_equal_in_any_order_and_with_any_ttl() {
        let [a, b] = ["a", "b"].map(RecordData::text);
        let set = |ttl, records: &[&RecordData]| RecordSet { ttl, records: records.iter().copied().cloned().collect() };
        assert!(set(1, &[&a, &b]).has_records_of(&set(2, &[&b, &a])));
        assert!(!set(1, &[&a, &b]).has_records_of(&set(1, &[&a])));
    }

    #[test]
    fn a_long_text_is_split_and_joined() {
        let text = "a".repeat(600);
        let RecordData::Txt(strings) = RecordData::text(&text) else { panic!("a text") };
        assert_eq!(strings.iter().map(Vec::len).collect::<Vec<_>>(), [255, 255, 90]);
        assert_eq!(RecordData::Txt(strings).joined_text(), Some(text));
        assert_eq!(RecordData::text("").to_string(), "\"\"");
        assert_eq!(RecordData::text(&"a".repeat(256)).to_string(), format!("\"{}\" \"a\"", "a".repeat(255)));
        assert_eq!(RecordData::text("a\"\\;é\n").to_string(), "\"a\\\"\\\\;\\195\\169\\010\"");
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_is_written(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=255), 1..5)) {
            let data = RecordData::Txt(strings);
            let set = RecordSet { ttl: 1, records: vec![data.clone(), data] };
            prop_assert_eq!(RecordSet::parse(RecordKind::Txt, 1, &set.lines()), Ok(set));
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in "[\"\\\\ a0-9.é]{0,40}") {
            for kind in RecordKind::ALL {
                let _ = RecordData::parse(kind, &text);
            }
        }
    }
}
