//! Addresses of receivers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper::Uri;

/// The URL of a receiver: `https`, or `http` for a receiver on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverUrl {
    text: String,
    pub(crate) is_tls: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Host and port as given, for the `Host` field.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) target: String,
}

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name that DNS resolves.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// The text is not a valid URL of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an https URL such as https://example.org/webhook, at most 2048 characters of ASCII, without user name, \
     password and fragment"
)]
pub struct UrlError;

impl ReceiverUrl {
    /// The longest URL in bytes.
    pub const MAX_BYTES: usize = 2048;

    /// Returns the text as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ReceiverUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        const HTTP: u16 = 80;
        const HTTPS: u16 = 443;
        // `Uri` drops fragments, and accepts paths with bytes beyond ASCII.
        let is_plain =
            text.len() <= Self::MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let uri: Uri = Some(text).filter(|_| is_plain).and_then(|text| text.parse().ok()).ok_or(UrlError)?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(UrlError)?;
        let port = match authority.port_u16() {
            // A port that is not a number is invalid, not absent.
            None if authority.as_str().len() == authority.host().len() => {
                if is_tls {
                    HTTPS
                } else {
                    HTTP
                }
            }
            None | Some(0) => return Err(UrlError),
            Some(port) => port,
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let target = if target.starts_with('/') { target } else { format!("/{target}") };
        let host = host(authority.host())?;
        Ok(Self { text: text.to_owned(), is_tls, host, port, authority: authority.to_string(), target })
    }
}

fn host(text: &str) -> Result<Host, UrlError> {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse().map(Host::Address).map_err(|_| UrlError);
    }
    if let Ok(address) = text.parse() {
        return Ok(Host::Address(address));
    }
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    // Other programs read a last label of digits as an address: `127.1` and `0x7f000001`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_numeric = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    let is_name = name.len() <= 253 && name.split('.').all(is_label) && !is_numeric;
    if is_name { Ok(Host::Name(name)) } else { Err(UrlError) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_names_no_receiver_is_refused() {
        let long = format!("https://example.org/{}", "a".repeat(ReceiverUrl::MAX_BYTES));
        for text in [
            "",
            "example.org",
            "/path",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://user@example.org/",
            "https://user:pass@example.org/",
            "https://example.org:0/",
            "https://example.org:65536/",
            "https://example.org:x/",
            "https://example.org:/",
            "https://example.org/#fragment",
            "https://example.org/a b",
            "https://example.org/\r\nX-Header: 1",
            "https://example.org\r\n.evil.example/",
            "https://exämple.org/",
            "https://example..org/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0177.0.0.1/",
            "https://[::1/",
            "https://[fe80::1%25eth0]/",
            "https://[example.org]/",
            &long,
        ] {
            assert_eq!(text.parse::<ReceiverUrl>(), Err(UrlError), "{text:?}");
        }
    }

    #[test]
    fn a_url_is_split_into_its_parts() {
        for (text, is_tls, host, port, authority, target) in [
            ("https://Example.org", true, Host::Name("example.org".to_owned()), 443, "Example.org", "/"),
            ("https://example.org./a?b=c", true, Host::Name("example.org".to_owned()), 443, "example.org.", "/a?b=c"),
            ("https://example.org?b=c", true, Host::Name("example.org".to_owned()), 443, "example.org", "/?b=c"),
            ("http://127.0.0.1:9000/x", false, Host::Address([127, 0, 0, 1].into()), 9000, "127.0.0.1:9000", "/x"),
            ("https://[::1]:8443/", true, Host::Address("::1".parse().unwrap()), 8443, "[::1]:8443", "/"),
        ] {
            let url: ReceiverUrl = text.parse().unwrap();
            assert_eq!((url.is_tls, &url.host, url.port), (is_tls, &host, port), "{text}");
            assert_eq!((url.authority.as_str(), url.target.as_str(), url.as_str()), (authority, target, text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_refused(text in "(https?://)?[ -~]{0,40}(:[0-9x]{0,6})?[/?#@\\[\\] -~\r\n]{0,20}") {
            if let Ok(url) = text.parse::<ReceiverUrl>() {
                prop_assert!(url.target.starts_with('/') && url.port > 0 && !url.authority.contains('@'));
                prop_assert!(!text.contains(['\r', '\n', ' ']));
            }
        }
    }
}
