//! imap-codec as an oracle for the output of this crate.

use imap_codec::decode::Decoder as _;
use imap_codec::{GreetingCodec, ResponseCodec};
use mailapi_imap::token::{FrameReader, Limits, Poll, Side};

/// Fails unless the octets are a sequence of whole responses (or a greeting).
pub(crate) fn accept_responses(mut bytes: &[u8]) {
    if let Ok((rest, _)) = GreetingCodec::default().decode(bytes) {
        bytes = rest;
    }
    while !bytes.is_empty() {
        if let Some(rest) = after_binary(bytes) {
            bytes = rest;
            continue;
        }
        let end = bytes.iter().position(|&byte| byte == b'\n').expect("a whole line") + 1;
        if is_beyond_its_grammar(&bytes[..end]) {
            bytes = &bytes[end..];
            continue;
        }
        match ResponseCodec::default().decode(bytes) {
            Ok((rest, _)) => bytes = rest,
            Err(error) => panic!("{error:?} in {}", String::from_utf8_lossy(bytes)),
        }
    }
}

/// What follows a FETCH response with BINARY, which imap-codec cannot decode with a range or as literal8.
fn after_binary(bytes: &[u8]) -> Option<&[u8]> {
    let line = bytes.split(|&byte| byte == b'\n').next()?;
    if !String::from_utf8_lossy(line).contains(" FETCH (BINARY") {
        return None;
    }
    let mut reader = FrameReader::new(Side::Client, Limits::default());
    reader.feed(bytes);
    assert!(matches!(reader.poll(), Poll::Frame(_)), "{}", String::from_utf8_lossy(bytes));
    // The response is the shortest prefix that is whole.
    (1..=bytes.len()).find_map(|end| {
        let mut reader = FrameReader::new(Side::Client, Limits::default());
        reader.feed(&bytes[..end]);
        matches!(reader.poll(), Poll::Frame(_)).then(|| &bytes[end..])
    })
}

/// Whether imap-codec cannot decode the line: ESEARCH, PREVIEW, APPENDLIMIT in STATUS, RFC 8474, UTF-8, extended items of LIST, RFC 7162.
fn is_beyond_its_grammar(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.starts_with("* ESEARCH")
        || line.starts_with("* VANISHED")
        || !line.is_ascii()
        || (line.contains(" FETCH (")
            && ["PREVIEW ", "EMAILID ", "THREADID ", "SAVEDATE "].iter().any(|item| line.contains(item)))
        || line.starts_with("* THREAD")
        || line.starts_with("* SORT")
        || line.contains("MODSEQ (")
        || line.contains(" (MODSEQ ")
        || line.contains("HIGHESTMODSEQ ")
        || line.contains(" (\"CHILDINFO\" (")
        || (line.starts_with("* STATUS")
            && (line.contains("APPENDLIMIT") || line.contains("MAILBOXID") || line.contains("DELETED")))
}
