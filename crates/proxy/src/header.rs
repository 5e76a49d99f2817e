//! Reads the header, version 1 or 2, without IO.

use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxyHeader};

/// The beginning of a header of version 1 (section 2.1).
pub const V1_START: &[u8] = b"PROXY ";
/// The beginning of a header of version 2 (section 2.2). No text protocol begins like this.
pub const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Maximum length of a header of version 1 with its line end (section 2.1).
const MAX_V1: usize = 107;
/// Length of a header of version 2 without addresses.
const V2_FIXED: usize = 16;
/// Maximum length of a header of version 2. Addresses need up to 216 bytes, and further fields (TLVs) seldom more than
/// a few hundred: the names of TLS, an identifier, or a client's certificate.
const MAX_V2: usize = 4096;
/// Version 2 with the command LOCAL.
const V2_LOCAL: u8 = 0x20;

/// What a proxy reports about the client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedClient {
    /// The client's address.
    Address(SocketAddr),
    /// None: the proxy itself connects, for example to check this server, or the client has no address.
    Unknown,
}

/// The bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The connection begins with something else.
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    /// The header is longer than allowed.
    #[error("the PROXY header is too long")]
    TooLong,
    /// The header breaks the rules of its version.
    #[error("the PROXY header is malformed")]
    Malformed,
}

/// The result of bytes that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenBytes {
    /// How many of the bytes belong to the header. What follows belongs to the protocol of the listener.
    pub length: usize,
    /// The content of the header, if it is complete.
    pub client: Option<ReportedClient>,
}

/// The header at the beginning of a connection, in pieces of any size.
#[derive(Debug, Default)]
pub struct HeaderReader {
    bytes: Vec<u8>,
}

impl HeaderReader {
    /// Takes the bytes that arrived next.
    ///
    /// # Errors
    /// [`HeaderError`] at the first byte after which this can be no header.
    pub fn take(&mut self, arrived: &[u8]) -> Result<TakenBytes, HeaderError> {
        for (at, byte) in arrived.iter().enumerate() {
            self.bytes.push(*byte);
            if is_complete(&self.bytes)? {
                return Ok(TakenBytes { length: at + 1, client: Some(decode(&self.bytes)?) });
            }
        }
        Ok(TakenBytes { length: arrived.len(), client: None })
    }
}

fn is_complete(bytes: &[u8]) -> Result<bool, HeaderError> {
    let begins = |start: &[u8]| bytes.starts_with(start) || start.starts_with(bytes);
    if begins(V1_START) {
        return match bytes.last() {
            Some(b'\n') => Ok(true),
            _ if bytes.len() >= MAX_V1 => Err(HeaderError::TooLong),
            _ => Ok(false),
        };
    }
    if !begins(V2_SIGNATURE) {
        return Err(HeaderError::Missing);
    }
    let Some(&[high, low]) = bytes.get(V2_FIXED - 2..V2_FIXED) else { return Ok(false) };
    match V2_FIXED + usize::from(u16::from_be_bytes([high, low])) {
        length if length > MAX_V2 => Err(HeaderError::TooLong),
        length => Ok(bytes.len() >= length),
    }
}

/// Decodes a whole header. Further fields are skipped, the checksum too: TCP has its own.
fn decode(header: &[u8]) -> Result<ReportedClient, HeaderError> {
    // Everything after LOCAL is ignored, also an unknown family (section 2.2).
    if header.starts_with(V2_SIGNATURE) && header[V2_SIGNATURE.len()] == V2_LOCAL {
        return Ok(ReportedClient::Unknown);
    }
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let (parsed, length) = ProxyHeader::parse(header, config).map_err(|_| HeaderError::Malformed)?;
    if length != header.len() {
        return Err(HeaderError::Malformed);
    }
    let source = parsed.proxied_address().map(|address| address.source);
    // A proxy without an address of its client may write zeros.
    let source = source.filter(|source| !source.ip().is_unspecified());
    Ok(source.map_or(ReportedClient::Unknown, |source| {
        ReportedClient::Address(SocketAddr::new(source.ip().to_canonical(), source.port()))
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<TakenBytes, HeaderError> {
        HeaderReader::default().take(bytes)
    }

    fn client(address: &str) -> ReportedClient {
        ReportedClient::Address(address.parse().unwrap())
    }

    /// A header of version 2 with this command and family.
    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [V2_SIGNATURE, &[command, family], &length, rest].concat()
    }

    const IPV4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 0, 25];

    #[test]
    fn what_is_no_header_is_refused_at_its_first_wrong_byte() {
        for (bytes, error) in [
            (&b"E"[..], HeaderError::Missing),
            (b"EHLO x\r\n", HeaderError::Missing),
            (b"\x16\x03\x01", HeaderError::Missing),
            (b"PRI * HTTP/2.0\r\n", HeaderError::Missing),
            (b"proxy TCP4 192.0.2.7 10.0.0.1 1 2\r\n", HeaderError::Missing),
            (b"\r\nEHLO x\r\n", HeaderError::Missing),
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n", HeaderError::Malformed),
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n", HeaderError::Malformed),
            (b"PROXY TCP4 192.0.2.07 10.0.0.1 1 2\r\n", HeaderError::Malformed),
            (b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", HeaderError::Malformed),
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 1 65536\r\n", HeaderError::Malformed),
            (b"PROXY TCP4  192.0.2.7 10.0.0.1 1 2\r\n", HeaderError::Malformed),
            (b"PROXY SCTP 192.0.2.7 10.0.0.1 1 2\r\n", HeaderError::Malformed),
            (b"PROXY \r\n", HeaderError::Malformed),
            (&[V1_START, &[b'x'; 200]].concat(), HeaderError::TooLong),
            (&v2(0x31, 0x11, &IPV4), HeaderError::Malformed),
            (&v2(0x22, 0x11, &IPV4), HeaderError::Malformed),
            (&v2(0x21, 0x41, &IPV4), HeaderError::Malformed),
            (&v2(0x21, 0x11, &IPV4[..11]), HeaderError::Malformed),
            (&v2(0x21, 0x21, &IPV4), HeaderError::Malformed),
            (&v2(0x21, 0x11, &[0; MAX_V2]), HeaderError::TooLong),
        ] {
            assert_eq!(read(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn both_versions_report_the_client() {
        let tlvs = [&IPV4[..], &[0x04, 0, 3, 1, 2, 3], &[0x03, 0, 4, 0, 0, 0, 0]].concat();
        let ipv6 = [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 16], &[0, 80, 0, 25]].concat();
        for (header, expected) in [
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 25\r\n".to_vec(), client("192.0.2.7:12345")),
            (b"PROXY TCP6 2001:db8::1 2001:db8::2 80 25\r\n".to_vec(), client("[2001:db8::1]:80")),
            (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 80 25\r\n".to_vec(), client("192.0.2.7:80")),
            (b"PROXY UNKNOWN\r\n".to_vec(), ReportedClient::Unknown),
            (b"PROXY UNKNOWN ffff:f:f::1 ffff:f:f::2 65535 65535\r\n".to_vec(), ReportedClient::Unknown),
            (b"PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n".to_vec(), ReportedClient::Unknown),
            (v2(0x21, 0x11, &IPV4), client("192.0.2.7:12345")),
            (v2(0x21, 0x11, &tlvs), client("192.0.2.7:12345")),
            // A client of HTTP/3.
            (v2(0x21, 0x12, &IPV4), client("192.0.2.7:12345")),
            (v2(0x21, 0x21, &ipv6), client("[2001:db8::1]:80")),
            (v2(0x21, 0x31, &[0; 216]), ReportedClient::Unknown),
            (v2(0x21, 0, &[]), ReportedClient::Unknown),
            (v2(0x20, 0, &[]), ReportedClient::Unknown),
            (v2(0x20, 0xff, &IPV4), ReportedClient::Unknown),
        ] {
            let length = header.len();
            let taken = read(&[&header[..], b"EHLO x\r\n"].concat());
            assert_eq!(taken, Ok(TakenBytes { length, client: Some(expected) }), "{}", header.escape_ascii());
        }
    }

    fn beginnings() -> impl Strategy<Value = Vec<u8>> {
        let text = "PROXY (TCP4|TCP6|UNKNOWN)?( [0-9a-f.:]{0,12}){0,5}\r?\n?";
        let binary = (any::<u8>(), any::<u8>(), 0..5_000_u16, prop::collection::vec(any::<u8>(), 0..300));
        let any_length = binary.prop_map(|(command, family, length, rest)| {
            [V2_SIGNATURE, &[command, family], &length.to_be_bytes(), &rest].concat()
        });
        let announced =
            (prop::sample::select(vec![0x20_u8, 0x21]), any::<u8>(), prop::collection::vec(any::<u8>(), 0..300));
        let whole = announced.prop_map(|(command, family, rest)| v2(command, family, &rest));
        prop_oneof![text.prop_map(String::into_bytes), any_length, whole, prop::collection::vec(any::<u8>(), 0..40)]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_however_they_are_split(bytes in beginnings(), piece in 1..40_usize) {
            let whole = read(&bytes);
            let (mut reader, mut taken, mut split) = (HeaderReader::default(), 0, Ok(None));
            for piece in bytes.chunks(piece) {
                match reader.take(piece) {
                    Ok(TakenBytes { length, client }) => (taken, split) = (taken + length, Ok(client)),
                    Err(error) => split = Err(error),
                }
                if split != Ok(None) {
                    break;
                }
            }
            prop_assert_eq!(whole.map(|whole| whole.client), split);
            prop_assert!(whole.is_err() || whole.unwrap().length == taken);
            prop_assert!(reader.bytes.len() <= MAX_V2);
        }
    }
}
