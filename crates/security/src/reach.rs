//! Notices messages that exceed what the reader of messages takes apart. What lies beyond would look harmless.

use std::io;

use mailapi_backend::mime::Limits;
use mailapi_model::Blob;

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// A multipart inside another names its type.
const MULTIPART: &[u8] = b"multipart";

/// Returns whether a header may have more fields than are read, or multiparts are nested more deeply. Long lists of fields in
/// a text count as well: a reader of their beginning cannot tell them from a header.
pub(crate) fn exceeds_the_reader(message: &Blob) -> io::Result<bool> {
    let limits = Limits::default();
    let (mut fields, mut multiparts) = (0_usize, 0_usize);
    let mut line: Vec<u8> = Vec::new();
    for piece in message.pieces(PIECE) {
        for part in piece?.split_inclusive(|byte| *byte == b'\n') {
            // The beginning of a line shows what it is.
            line.extend_from_slice(&part[..part.len().min(PIECE.saturating_sub(line.len()))]);
            if !part.ends_with(b"\n") {
                continue;
            }
            let begins = line.first().copied().unwrap_or_default();
            match begins {
                b' ' | b'\t' => {}
                _ if is_field(&line) => fields += 1,
                _ => fields = 0,
            }
            multiparts += usize::from(names_multipart(&line));
            if fields >= limits.max_fields || multiparts >= limits.max_depth {
                return Ok(true);
            }
            line.clear();
        }
    }
    Ok(false)
}

/// Returns whether a line is a field with a name of printable characters (RFC 5322 section 2.2).
fn is_field(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_graphic() && **byte != b':').count();
    name > 0 && line[name..].trim_ascii_start().first() == Some(&b':')
}

fn names_multipart(line: &[u8]) -> bool {
    let ends = memchr::memchr_iter(b'/', line);
    ends.filter_map(|end| line.get(..end)).any(|start| {
        start.len().checked_sub(MULTIPART.len()).is_some_and(|at| start[at..].eq_ignore_ascii_case(MULTIPART))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeds(message: String) -> bool {
        exceeds_the_reader(&Blob::from(message)).unwrap()
    }

    #[test]
    fn padded_headers_and_deep_nesting_are_noticed() {
        let fields = |count: usize| "X: y\r\n\tz\r\n".repeat(count);
        assert!(!exceeds(format!("{}\r\nHi\r\n", fields(9_000))));
        assert!(exceeds(format!("{}From: a@b.example\r\n\r\nHi\r\n", fields(10_000))));
        assert!(exceeds(format!("From: a@b.example\r\n\r\n--b\r\n{}\r\nHi\r\n", fields(10_000))));
        assert!(exceeds(format!("\r\n{}", "X \t: y\n".repeat(10_000))));
        assert!(!exceeds(format!("\r\n{}", "X: y\n\n".repeat(20_000))));
        let nested = |depth: usize| {
            let levels = (0..depth)
                .map(|level| format!("Content-Type: Multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"));
            levels.collect::<String>()
        };
        assert!(!exceeds(nested(200)));
        assert!(exceeds(nested(256)));
    }

    #[test]
    fn long_lines_are_read_in_pieces() {
        assert!(!exceeds("a".repeat(1_000_000)));
        assert!(!exceeds(format!("{}\n", "multipart/".repeat(100_000))));
    }
}
