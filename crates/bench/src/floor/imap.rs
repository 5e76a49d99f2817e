//! The IMAP floor: a raw client on a persistent connection with an open folder. It writes encoded commands, and
//! reads responses without parsing more than the last line.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::Client;
use crate::outcome::{Failure, Outcome};

/// No line of the mail begins with this tag.
const TAG: &str = "bench";
const READ_BYTES: usize = 256 * 1024;
/// Longer than the last line of any response; after a login it lists the capabilities.
const TAIL: usize = 2048;

/// A connection with the commands to send in turn.
pub(crate) struct ImapClient {
    stream: TcpStream,
    commands: Arc<[String]>,
    buffer: Vec<u8>,
}

/// Encodes a command.
pub(crate) fn command(words: &str) -> String {
    format!("{TAG} {words}\r\n")
}

impl ImapClient {
    /// Logs in and opens the INBOX read-only.
    pub(crate) async fn open(
        server: SocketAddr,
        user: &str,
        password: &str,
        commands: &Arc<[String]>,
    ) -> Outcome<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, commands: Arc::clone(commands), buffer: vec![0; READ_BYTES] };
        client.stream.write_all(command(&format!("LOGIN {user} {password}")).as_bytes()).await?;
        client.read_answer(|_| {}).await?;
        client.answer(&command("EXAMINE INBOX")).await?;
        Ok(client)
    }

    /// Runs a command and returns the whole response.
    pub(crate) async fn answer(&mut self, command: &str) -> Outcome<Vec<u8>> {
        let mut answer = Vec::new();
        self.stream.write_all(command.as_bytes()).await?;
        self.read_answer(|bytes| answer.extend_from_slice(bytes)).await?;
        Ok(answer)
    }

    async fn read_answer(&mut self, mut each: impl FnMut(&[u8])) -> Outcome {
        let mut tail = Vec::with_capacity(TAIL * 2);
        loop {
            let count = self.stream.read(&mut self.buffer).await?;
            if count == 0 {
                return Err(Failure::new("the IMAP server closed the connection"));
            }
            let bytes = &self.buffer[..count];
            each(bytes);
            // Keep the end of the input: the tagged line may be split between two reads.
            tail.extend_from_slice(&bytes[count.saturating_sub(TAIL)..]);
            tail.drain(..tail.len().saturating_sub(TAIL));
            match last_line(&tail).and_then(|line| line.strip_prefix(TAG.as_bytes())) {
                Some(outcome) if outcome.starts_with(b" OK") => return Ok(()),
                Some(outcome) if outcome.starts_with(b" ") => {
                    return Err(Failure::new(format!("IMAP answered{}", String::from_utf8_lossy(outcome))));
                }
                _ => {}
            }
        }
    }
}

impl Client for ImapClient {
    async fn operate(&mut self, number: usize) -> Outcome {
        let command = &self.commands[number % self.commands.len()];
        self.stream.write_all(command.as_bytes()).await?;
        self.read_answer(|_| {}).await
    }
}

/// The last line, if it is complete.
fn last_line(bytes: &[u8]) -> Option<&[u8]> {
    let line = bytes.strip_suffix(b"\r\n")?;
    Some(line.iter().rposition(|byte| *byte == b'\n').map_or(line, |end| &line[end + 1..]))
}

/// The number of messages in a response.
pub(crate) fn fetched(answer: &[u8]) -> usize {
    String::from_utf8_lossy(answer).lines().filter(|line| line.starts_with("* ") && line.contains(" FETCH (")).count()
}

/// The UIDs of a search result, ascending.
pub(crate) fn found(answer: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(answer);
    let listed = text.lines().filter_map(|line| line.strip_prefix("* SEARCH"));
    let mut uids: Vec<u64> = listed.flat_map(str::split_ascii_whitespace).flat_map(str::parse).collect();
    uids.sort_unstable();
    uids
}

/// The octets of the first literal in a response (RFC 3501 section 4.3).
pub(crate) fn literal(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(3).position(|bytes| bytes == b"}\r\n")?;
    let start = answer[..end].iter().rposition(|byte| *byte == b'{')? + 1;
    let bytes: usize = std::str::from_utf8(&answer[start..end]).ok()?.parse().ok()?;
    answer.get(end + 3..end + 3 + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_last_one_when_it_is_complete() {
        assert_eq!(last_line(b"* 1 FETCH ()\r\nbench OK don"), None);
        assert_eq!(last_line(b"* 1 FETCH ()\r\nbench OK done\r\n"), Some(&b"bench OK done"[..]));
        assert_eq!(last_line(b"bench OK\r\n"), Some(&b"bench OK"[..]));
    }

    #[test]
    fn answers_are_counted() {
        let answer = b"* 1 FETCH (UID 1 BODY[] {12}\r\n* 2 FETCH {\r\n)\r\n* SEARCH 9 10 2\r\nbench OK\r\n";
        assert_eq!(literal(answer), Some(&b"* 2 FETCH {\r"[..]));
        assert_eq!(found(answer), [2, 9, 10]);
        assert_eq!(fetched(b"* 1 FETCH (UID 1)\r\n* 2 EXISTS\r\n* 2 FETCH (UID 2)\r\n"), 2);
        assert_eq!(literal(b"* 1 FETCH (BODY[] {12}\r\nshort"), None);
    }
}
