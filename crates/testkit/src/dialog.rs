//! SMTP and IMAP dialogs in text files, and their player.
//!
//! ```text
//! # A comment. Settings come first; the peer interprets them.
//! = role submission
//! c -> EHLO client.example     the client sends this line and a CRLF
//! c => "a\n.\r\n"              the client sends exactly these bytes
//! c tls                        the client performs its side of the handshake
//! s <- 250-...                 the next reply line; `...` matches any text
//! s closes                     the server closes the connection
//! h <- message <a@b> ...       the next event at the server's host
//! ```
//!
//! Blank lines are ignored. At the end of a dialog, no reply or event may be left.

use std::fmt::Write;

/// The server's end of a dialog: a session in memory, or a connection over a socket.
pub trait Peer {
    /// Sends these bytes to the server.
    fn send(&mut self, bytes: &[u8]);
    /// Returns the next reply line without CRLF; `None` if there is none.
    fn line(&mut self) -> Option<String>;
    /// Returns whether the server has closed the connection.
    fn is_closed(&mut self) -> bool;
    /// Performs the client's side of the handshake; returns whether the server was ready for it.
    fn start_tls(&mut self) -> bool;
    /// Returns the oldest event at the host that the dialog has not mentioned.
    fn host_event(&mut self) -> Option<String>;
    /// Ends the dialog. Afterwards [`Peer::line`] returns the server's unsolicited lines.
    fn hang_up(&mut self) {}
}

/// A dialog read from a file.
#[derive(Debug)]
pub struct Dialog {
    /// Settings of the peer, by key and value.
    pub settings: Vec<(String, String)>,
    lines: Vec<(usize, Line)>,
}

#[derive(Debug)]
enum Line {
    Send(Vec<u8>),
    Expect(String),
    StartTls,
    Closes,
    Host(String),
}

impl Dialog {
    /// Parses a dialog.
    ///
    /// # Errors
    /// The line that is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut dialog = Self { settings: Vec::new(), lines: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((key, value)) = line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')) {
                dialog.settings.push((key.to_owned(), value.to_owned()));
                continue;
            }
            let parsed = parse_line(line).ok_or_else(|| format!("line {number}: {line}"))?;
            dialog.lines.push((number, parsed));
        }
        Ok(dialog)
    }

    /// Plays the client against `peer`.
    ///
    /// # Errors
    /// The line where peer and dialog differ.
    pub fn play(&self, peer: &mut impl Peer) -> Result<(), String> {
        for (number, line) in &self.lines {
            play_line(line, peer).map_err(|what| format!("line {number}: {what}"))?;
        }
        peer.hang_up();
        let mut left = String::new();
        while let Some(line) = peer.line() {
            let _ = write!(left, "\n  reply {line}");
        }
        while let Some(event) = peer.host_event() {
            let _ = write!(left, "\n  host {event}");
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("left at the end:{left}")),
        }
    }
}

fn parse_line(line: &str) -> Option<Line> {
    match line {
        "c tls" => return Some(Line::StartTls),
        "s closes" => return Some(Line::Closes),
        "c ->" => return Some(Line::Send(b"\r\n".to_vec())),
        _ => {}
    }
    let (mark, rest) = line.split_at_checked(5)?;
    match mark {
        "c -> " => Some(Line::Send(format!("{rest}\r\n").into_bytes())),
        "c => " => Some(Line::Send(unescape(rest)?)),
        "s <- " => Some(Line::Expect(rest.to_owned())),
        "h <- " => Some(Line::Host(rest.to_owned())),
        _ => None,
    }
}

/// Decodes `"..."` with `\r`, `\n`, `\0`, `\t`, `\\`, `\"`, `\xHH`, and `{text*count}` for repetition.
fn unescape(quoted: &str) -> Option<Vec<u8>> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::new();
    let mut rest = inner;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => {
                let kind = rest.chars().next()?;
                rest = &rest[kind.len_utf8()..];
                out.push(match kind {
                    'r' => b'\r',
                    'n' => b'\n',
                    't' => b'\t',
                    '0' => 0,
                    '\\' => b'\\',
                    '"' => b'"',
                    'x' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    _ => return None,
                });
            }
            '{' => {
                let (repeat, after) = rest.split_once('}')?;
                let (text, count) = repeat.rsplit_once('*')?;
                out.extend(text.repeat(count.parse().ok()?).bytes());
                rest = after;
            }
            _ => out.extend(character.to_string().bytes()),
        }
    }
    Some(out)
}

fn play_line(line: &Line, peer: &mut impl Peer) -> Result<(), String> {
    let (expected, found) = match line {
        Line::Send(bytes) => {
            peer.send(bytes);
            return Ok(());
        }
        Line::StartTls if peer.start_tls() => return Ok(()),
        Line::StartTls => return Err("the server is not ready for TLS".to_owned()),
        Line::Closes if peer.is_closed() => return Ok(()),
        Line::Closes => return Err("the server does not close".to_owned()),
        Line::Expect(pattern) => (pattern, peer.line()),
        Line::Host(pattern) => (pattern, peer.host_event()),
    };
    let found = found.unwrap_or_else(|| "nothing".to_owned());
    match matches(expected, &found) {
        true => Ok(()),
        false => Err(format!("\n  expected {expected}\n  found    {found}")),
    }
}

/// Returns whether `text` consists of the pieces of `pattern` with any text in place of `...`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once("...") else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(first) else {
        return false;
    };
    (0..=text.len()).filter(|&at| text.is_char_boundary(at)).any(|at| matches(rest, &text[at..]))
}
