//! Parses replies from the server's bytes (RFC 5321 section 4.2.1), with limits on their size.

use crate::reply::{EnhancedCode, Reply};

/// Maximum length of a reply line. RFC 5321 section 4.5.3.1.5 allows 512; real servers send longer lines.
const MAX_LINE_BYTES: usize = 4096;
/// Maximum number of lines in a reply. The longest real one, to EHLO, has about 20.
const MAX_LINES: usize = 128;

/// Unread bytes and the lines of an incomplete reply.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    bytes: Vec<u8>,
    partial: Option<Reply>,
    lines: usize,
}

impl ReplyReader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns whether all bytes were consumed and no reply is incomplete.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.partial.is_none()
    }

    /// Returns the next complete reply. The error describes the violation; no reply can be read after an
    /// error.
    pub(super) fn next(&mut self) -> Result<Option<Reply>, &'static str> {
        while let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
            if end >= MAX_LINE_BYTES {
                return Err("reply line too long");
            }
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            if let Some(reply) = self.line(&line)? {
                return Ok(Some(reply));
            }
        }
        // The limit also applies to a line that has not ended yet: a server must not fill our memory.
        if self.bytes.len() >= MAX_LINE_BYTES {
            return Err("reply line too long");
        }
        Ok(None)
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Reply>, &'static str> {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        let (code, rest) = line.split_at_checked(3).ok_or("reply without a code")?;
        let code = reply_code(code).ok_or("reply without a code")?;
        let (last, text) = match rest.as_bytes().first() {
            None => (true, ""),
            Some(b' ') => (true, &rest[1..]),
            Some(b'-') => (false, &rest[1..]),
            Some(_) => return Err("no space after a reply code"),
        };
        self.append(code, text)?;
        Ok(if last { self.partial.take() } else { None })
    }

    fn append(&mut self, code: u16, text: &str) -> Result<(), &'static str> {
        let (enhanced, text) = split_enhanced(code, text);
        match &mut self.partial {
            None => {
                self.lines = 1;
                self.partial = Some(Reply { code, enhanced, text: text.to_owned() });
            }
            Some(reply) => {
                self.lines += 1;
                // RFC 5321 section 4.2.1 demands one code. Of servers that send two, clients look at the last line, as
                // curl and Postfix do.
                if reply.code != code {
                    (reply.code, reply.enhanced) = (code, enhanced);
                }
                reply.text.push('\n');
                reply.text.push_str(text);
            }
        }
        if self.lines > MAX_LINES {
            return Err("too many lines in a reply");
        }
        Ok(())
    }
}

fn reply_code(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let code: u16 = digits.then(|| text.parse().ok())??;
    (200..600).contains(&code).then_some(code)
}

/// Splits an enhanced code off the text if its class matches the reply code (RFC 2034 section 4).
fn split_enhanced(code: u16, text: &str) -> (Option<EnhancedCode>, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match EnhancedCode::parse(word) {
        Some(enhanced) if u16::from(enhanced.class) == code / 100 => (Some(enhanced), rest),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Reply>, &'static str> {
        let mut reader = ReplyReader::default();
        reader.push(bytes);
        reader.next()
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let many_lines = "250-a\r\n".repeat(MAX_LINES + 1);
        for wrong in
            ["\r\n", "25\r\n", "099 x\r\n", "600 x\r\n", "2x0 x\r\n", "250x\r\n", "250\tx\r\n", &many_lines, "2é\r\n"]
        {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(read(&[b'2'; MAX_LINE_BYTES]).is_err());
    }

    #[test]
    fn a_reply_is_read_when_its_last_line_is_complete() {
        assert_eq!(read(b"250-a\r\n250-b\r\n"), Ok(None));
        assert_eq!(read(b"250 a\r"), Ok(None));
        assert_eq!(read(b"354\r\n"), Ok(Some(Reply::plain(354, ""))));
        let reply = Reply::new(550, (5, 1, 1), "a\nb");
        assert_eq!(read(b"550-5.1.1 a\r\n550 5.1.1 b\n"), Ok(Some(reply)));
        assert_eq!(read(b"550-5.7.1 a\r\n551 5.1.6 b\r\n"), Ok(Some(Reply::new(551, (5, 1, 6), "a\nb"))));
        assert_eq!(read(b"550-5.1.1 a\r\n451 b\r\n"), Ok(Some(Reply::plain(451, "a\nb"))));
        let other_class = Reply::plain(450, "5.1.1 a");
        assert_eq!(read(b"450 5.1.1 a\r\n"), Ok(Some(other_class)));
    }
    proptest! {
        #[test]
        fn the_last_line_decides_the_code_however_the_reply_is_split(
            codes in prop::collection::vec(200_u16..600, 1..6),
            size in 1_usize..9,
        ) {
            let (last, others) = codes.split_last().unwrap();
            let mut bytes: String = others.iter().map(|code| format!("{code}-{}.1.1 a\r\n", code / 100)).collect();
            bytes.push_str(&format!("{last} {}.7.1 b\r\n", last / 100));
            let mut reader = ReplyReader::default();
            bytes.as_bytes().chunks(size).for_each(|piece| reader.push(piece));
            let reply = reader.next().unwrap().unwrap();
            prop_assert_eq!(reply.code, *last);
            prop_assert!(reply.enhanced.is_none_or(|enhanced| u16::from(enhanced.class) == last / 100));
            prop_assert!(reader.is_empty());
        }
    }
}
