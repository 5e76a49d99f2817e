//! imap-codec as an oracle for the output of this crate.

use imap_codec::decode::Decoder as _;
use imap_codec::{GreetingCodec, ResponseCodec};

/// Fails unless the octets are a sequence of whole responses (or a greeting).
pub(crate) fn accept_responses(mut bytes: &[u8]) {
    if let Ok((rest, _)) = GreetingCodec::default().decode(bytes) {
        bytes = rest;
    }
    while !bytes.is_empty() {
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

/// Whether imap-codec cannot decode the line: ESEARCH, APPENDLIMIT in STATUS, extended items of LIST.
fn is_beyond_its_grammar(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.starts_with("* ESEARCH")
        || line.contains(" (\"CHILDINFO\" (")
        || (line.starts_with("* STATUS") && line.contains("APPENDLIMIT"))
}
