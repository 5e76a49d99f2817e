//! One short IMAP session of a mail program (RFC 3501).

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::Client;
use crate::outcome::{Failure, Outcome};

/// The commands after the login.
const COMMANDS: &[&str] = &[
    "LIST \"\" \"*\"",
    "SELECT INBOX",
    "UID FETCH * (UID FLAGS ENVELOPE BODYSTRUCTURE)",
    "UID FETCH * BODY.PEEK[]",
    "UID STORE * +FLAGS (\\Seen)",
    "SEARCH SUBJECT meeting",
    "CLOSE",
];

/// A mail program for one mailbox.
pub(super) struct MailProgram {
    pub(super) address: SocketAddr,
    pub(super) user: String,
    pub(super) password: String,
}

impl Client for MailProgram {
    async fn operate(&mut self, _: usize) -> Outcome {
        let mut session = Session::log_in(self.address, &self.user, &self.password).await?;
        for command in COMMANDS {
            session.command(command).await?;
        }
        session.command("LOGOUT").await
    }
}

/// A logged-in session that opens the INBOX repeatedly.
pub(crate) struct Selecting(Session);

impl Selecting {
    pub(crate) async fn log_in(address: SocketAddr, user: &str, password: &str) -> Outcome<Self> {
        Session::log_in(address, user, password).await.map(Self)
    }
}

/// A session that appends messages to its open INBOX.
pub(crate) struct Appending(Session);

impl Appending {
    pub(crate) async fn log_in(address: SocketAddr, user: &str, password: &str) -> Outcome<Self> {
        let mut session = Session::log_in(address, user, password).await?;
        session.command("SELECT INBOX").await?;
        Ok(Self(session))
    }

    /// Appends a message.
    pub(crate) async fn append(&mut self, message: &str) -> Outcome {
        self.0.stream.write_all(format!("a APPEND INBOX {{{}}}\r\n", message.len()).as_bytes()).await?;
        self.0.until(|text| text.starts_with("+ ") && text.ends_with("\r\n")).await?;
        self.0.command_after(message, "APPEND").await
    }

    /// Runs a command that must succeed.
    pub(crate) async fn command(&mut self, command: &str) -> Outcome {
        self.0.command(command).await
    }

    /// Copies the first messages within the INBOX.
    pub(crate) async fn copy(&mut self, count: usize) -> Outcome {
        self.0.command(&format!("COPY 1:{count} INBOX")).await
    }
}

impl Client for Selecting {
    async fn operate(&mut self, _: usize) -> Outcome {
        self.0.command("SELECT INBOX").await
    }
}

struct Session {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Session {
    async fn log_in(address: SocketAddr, user: &str, password: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut session = Self { stream, read: Vec::new() };
        session.until(|text| text.ends_with("\r\n")).await?;
        session.command(&format!("LOGIN {user} \"{password}\"")).await?;
        Ok(session)
    }

    /// Runs a command; fails unless it completes with OK.
    async fn command(&mut self, command: &str) -> Outcome {
        let name = command.split(' ').next().unwrap_or_default();
        self.command_after(&format!("a {command}"), name).await
    }

    /// Writes the rest of a command; fails unless it completes with OK.
    async fn command_after(&mut self, bytes: &str, name: &str) -> Outcome {
        self.stream.write_all(bytes.as_bytes()).await?;
        self.stream.write_all(b"\r\n").await?;
        let answer = self.until(|text| ended(text).is_some()).await?;
        match ended(&answer) {
            Some(line) if line.starts_with("a OK") => Ok(()),
            line => Err(Failure::new(format!("IMAP {name}: {}", line.unwrap_or_default()))),
        }
    }

    /// Reads until `enough` returns true; returns the end of the input.
    async fn until(&mut self, enough: impl Fn(&str) -> bool) -> Outcome<String> {
        self.read.clear();
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(Failure::new("the IMAP server closed the connection"));
            }
            let tail = String::from_utf8_lossy(&self.read[self.read.len().saturating_sub(TAIL)..]);
            if enough(&tail) {
                return Ok(tail.into_owned());
            }
        }
    }
}

/// Maximum length of the last line of a response.
const TAIL: usize = 2_000;

/// The last line, if it is complete and tagged.
fn ended(text: &str) -> Option<&str> {
    let last = text.strip_suffix("\r\n")?.rsplit("\r\n").next()?;
    last.starts_with("a ").then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_a_tagged_line_that_is_complete() {
        assert_eq!(ended("* 1 EXISTS\r\na OK don"), None);
        assert_eq!(ended("* a OK\r\n"), None);
        assert_eq!(ended("* 1 EXISTS\r\na OK done\r\n"), Some("a OK done"));
    }
}
