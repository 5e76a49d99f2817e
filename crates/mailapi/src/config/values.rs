//! Forms of durations, sizes, addresses and names in a configuration file.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration such as `"10m"`, `"8h"`, `"250ms"` or `"5d"`; a day has 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HumanDuration(pub(crate) Duration);

/// A hundred years. Durations are added to times and multiplied; longer ones would leave the range of a time.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!("`{text}` is not a valid duration; write a number and a unit, such as 250ms, 30s, 10m, 8h or 5d")
        };
        let span: jiff::Span = text.parse().map_err(|_| wrong())?;
        let signed = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
        let duration = Duration::try_from(signed).map_err(|_| wrong())?;
        if duration > LONGEST {
            return Err(format!("`{text}` is too long; a duration is at most 36500d"));
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compact units without spaces and fractions, which `from_str` parses as the same duration.
        jiff::fmt::friendly::SpanPrinter::new()
            .spacing(jiff::fmt::friendly::Spacing::None)
            .print_unsigned_duration(&self.0, jiff::fmt::StdFmtWrite(f))
            .map_err(|_| fmt::Error)
    }
}

/// A number of bytes: an integer, or text with a unit such as `"25MiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl ByteSize {
    /// For limits of memory.
    pub(crate) fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size: bytesize::ByteSize = text.parse().map_err(|_| {
            format!("`{text}` is not a valid size; write a number of bytes, or a number and a unit such as 25MiB")
        })?;
        Ok(Self(size.as_u64()))
    }
}

impl fmt::Display for ByteSize {
    /// The text is exact: a unit appears only where it divides the size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fitting = units.into_iter().find(|(bits, _)| self.0 != 0 && self.0.is_multiple_of(1 << bits));
        match fitting {
            Some((bits, unit)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or text such as \"25MiB\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<ByteSize, E> {
                u64::try_from(number).map(ByteSize).map_err(|_| E::custom("a size cannot be negative"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The address of a listener: an IP address or `localhost`, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // RFC 6761 section 6.3: the name always means the loopback address, so no name server is asked.
        let address = match text.strip_prefix("localhost:").map(str::parse) {
            Some(Ok(port)) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            Some(Err(_)) => None,
            None => text.parse().ok(),
        };
        address.map(Self).ok_or_else(|| {
            format!("`{text}` is not an IP address with a port, such as 127.0.0.1:8080, 0.0.0.0:25 or [::1]:143")
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Any value with a text form: an email address, a domain name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer).map(Self)
    }
}

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A setting that may be empty. TOML has no null, so an empty text means "not set".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unset<T>(pub(crate) Option<T>);

impl<T> Default for Unset<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Unset<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        text.parse().map(|value| Self(Some(value))).map_err(de::Error::custom)
    }
}

impl<T: fmt::Display> Serialize for Unset<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_str(""),
        }
    }
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_duration_or_size_is_refused() {
        for text in ["", "10", "ten minutes", "-5s", "1y", "5 parsecs", "36501d", "9000000000000000s"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
        for text in ["", "MiB", "-1", "25 stones"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn localhost_is_the_loopback_and_other_names_are_refused() {
        for (text, address) in
            [("localhost:8080", "127.0.0.1:8080"), ("[::1]:143", "[::1]:143"), ("0.0.0.0:25", "0.0.0.0:25")]
        {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), address);
        }
        for text in
            ["", "localhost", "localhost:", "localhost:smtp", "mx.example.org:25", "127.0.0.1", ":25", "::1:143x"]
        {
            assert!(text.parse::<ListenAddress>().unwrap_err().contains("such as 127.0.0.1:8080"), "{text}");
        }
    }

    #[test]
    fn durations_and_sizes_are_shown_as_they_are_read() {
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("10m", 600_000), ("8h", 28_800_000), ("0s", 0)] {
            let duration: HumanDuration = text.parse().unwrap();
            assert_eq!(duration.0, Duration::from_millis(millis));
            assert_eq!(duration.to_string(), text);
        }
        assert_eq!("5d".parse::<HumanDuration>().unwrap().to_string(), "120h");
        let mixed: HumanDuration = "1h30m".parse().unwrap();
        assert_eq!(mixed.to_string().parse::<HumanDuration>().unwrap(), mixed);
        for (text, bytes) in [("25MiB", 25 << 20), ("100", 100), ("64KiB", 65_536), ("0", 0)] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, text));
        }
        assert_eq!("25MB".parse::<ByteSize>().unwrap().to_string(), "25000000");
    }
}
