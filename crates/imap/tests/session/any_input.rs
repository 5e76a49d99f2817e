//! Arbitrary client input, split anywhere: no panic, and the same responses.

use crate::memory_host::MemoryHost;
use mailapi_imap::server::session::{Session, SessionConfig, Step};
use proptest::prelude::*;

/// All output of the server for `input`, fed in pieces of `size` bytes.
fn answers(input: &[u8], size: usize) -> Vec<u8> {
    let config = SessionConfig { plaintext_login: true, ..SessionConfig::default() };
    let mut session = Session::new(config, false);
    let mut host = MemoryHost::new();
    for piece in input.chunks(size) {
        if matches!(host.drive(&mut session), Step::Close) {
            break;
        }
        session.feed(piece);
    }
    host.drive(&mut session);
    session.take_output()
}

fn lines() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "a LOGIN joe secret",
        "b SELECT INBOX",
        "c EXAMINE Work",
        "d FETCH 1:* (FLAGS BODY[])",
        "e UID SEARCH ALL",
        "f STORE 1 +FLAGS (\\Deleted)",
        "g EXPUNGE",
        "h IDLE",
        "DONE",
        "i COPY 1:* Sent",
        "j UID MOVE 1:* Work",
        "k APPEND INBOX {4+}\r\nabcd",
        "l LIST \"\" * RETURN (STATUS (MESSAGES))",
        "m CLOSE",
        "n CREATE x/y",
        "o AUTHENTICATE PLAIN",
        "AGpvZQBzZWNyZXQ=",
        "p LOGIN {3}\r\njoe secret",
        "q UNSELECT",
        "r DELETE Work",
        "*",
    ]);
    let odd = "[ -~]{0,30}(\\{[0-9]{1,2}\\+?\\})?";
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => odd.prop_map(String::from)]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..400)) {
        answers(&input, 64);
    }

    #[test]
    fn pieces_do_not_matter(lines in prop::collection::vec(lines(), 0..15), size in 1usize..60) {
        let input = format!("a LOGIN joe secret\r\nb SELECT INBOX\r\n{}\r\n", lines.join("\r\n"));
        let whole = answers(input.as_bytes(), input.len());
        prop_assert_eq!(answers(input.as_bytes(), size), whole);
    }
}
