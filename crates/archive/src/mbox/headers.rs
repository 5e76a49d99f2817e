//! Headers in which programs keep the state of a message. They are not of the message itself.

use mailapi_imap::{Flags, SystemFlag};
use mailapi_model::Timestamp;

use super::labels::Labels;
use super::{OWN_LINES, OWN_MARK};

/// The state that headers of a message describe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    words: Vec<String>,
    /// Words beyond the maximum.
    lost: u64,
    /// The first line of our own exports.
    pub(super) own: Option<Own>,
    /// Remaining lines of such a block.
    own_lines: usize,
    /// The message only holds the state of the whole file.
    pub(super) is_of_the_file: bool,
    /// The length of the body that the header states; 0 without one.
    pub(super) content_length: u64,
    labels: Labels,
}

/// What the first line of our own exports says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Own {
    /// The size of the message with CRLF, or as it is.
    pub(super) octets: u64,
    /// The lines are in the file byte for byte.
    pub(super) is_verbatim: bool,
    /// When the message arrived.
    pub(super) at: Timestamp,
}

impl Own {
    pub(super) fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.strip_prefix(OWN_MARK)?.trim_end().split("; ").collect();
        let field = |name: &str| fields.iter().find_map(|field| field.strip_prefix(name));
        Some(Self {
            octets: field("octets=")?.parse().ok()?,
            is_verbatim: fields.contains(&"verbatim"),
            at: Timestamp::from_millis(field("ms=")?.parse().ok().filter(|ms: &i64| ms.unsigned_abs() < MAX_MILLIS)?),
        })
    }

    pub(super) fn write(self) -> String {
        let verbatim = if self.is_verbatim { "; verbatim" } else { "" };
        format!("{OWN_MARK}octets={}; ms={}{verbatim}\n", self.octets, self.at.as_millis())
    }
}

/// Beyond this, a time cannot be shown as a date.
const MAX_MILLIS: u64 = 253_402_300_800_000;

/// Flags and keywords of a message that are read. No mailbox takes a message with so many.
const MOST_WORDS: usize = 1_000;

impl State {
    /// Reads a header line, the first of a message or not. Returns whether it describes the state.
    pub(super) fn takes(&mut self, line: &str, is_first: bool) -> bool {
        if is_first && let Some(own) = Own::read(line) {
            (self.own, self.own_lines) = (Some(own), OWN_LINES.len());
            return true;
        }
        // After our own block, all other headers are of the message.
        if self.own.is_some() && self.own_lines == 0 {
            return false;
        }
        self.own_lines = self.own_lines.saturating_sub(1);
        let Some((name, value)) = line.split_once(':') else { return false };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        self.labels.begin(&name, line);
        match name.as_str() {
            "status" => self.letters(value, &[('R', SystemFlag::Seen)]),
            "x-status" => self.letters(value, &X_STATUS),
            "x-keywords" | "x-mozilla-keys" => value.split_ascii_whitespace().for_each(|word| self.note(word)),
            "x-mozilla-status" => self.bits(u16::from_str_radix(value, 16).unwrap_or_default()),
            "x-imap" => self.is_of_the_file = true,
            "content-length" => self.content_length = value.parse().unwrap_or_default(),
            "x-imapbase" | "x-uid" | "x-mozilla-status2" => {}
            _ => return false,
        }
        true
    }

    /// Reads a line that continues a field of the message.
    pub(super) fn continues(&mut self, line: &str) {
        self.labels.go_on(line);
    }

    /// Returns the special use of the folder in which the message was (RFC 6154), if it was in one.
    pub(super) fn special_use(&self) -> Option<&'static str> {
        self.labels.special_use()
    }

    /// Returns the flags, and the number of those that are left out.
    pub(super) fn flags(&self) -> (Flags, u64) {
        let (flags, lost) = Flags::with_left_out(self.words.iter().map(String::as_str));
        (flags.with(&Flags::from_words(self.labels.flags())), lost + self.lost)
    }

    fn letters(&mut self, value: &str, known: &[(char, SystemFlag)]) {
        let flags = known.iter().filter(|(letter, _)| value.contains(*letter));
        flags.for_each(|(_, flag)| self.note(flag.as_str()));
    }

    fn bits(&mut self, value: u16) {
        let flags = MOZILLA_BITS.iter().filter(|(bit, _)| value & bit != 0);
        flags.for_each(|(_, flag)| self.note(flag));
    }

    /// Adds a flag. The header of a message, which has any length, may repeat a field.
    fn note(&mut self, word: &str) {
        match self.words.last() {
            Some(last) if last == word => {}
            _ if self.words.len() < MOST_WORDS => self.words.push(word.to_owned()),
            _ => self.lost += 1,
        }
    }
}

const X_STATUS: [(char, SystemFlag); 4] =
    [('A', SystemFlag::Answered), ('F', SystemFlag::Flagged), ('D', SystemFlag::Deleted), ('T', SystemFlag::Draft)];

const MOZILLA_BITS: [(u16, &str); 5] =
    [(0x0001, "\\Seen"), (0x0002, "\\Answered"), (0x0004, "\\Flagged"), (0x0008, "\\Deleted"), (0x1000, "$Forwarded")];

/// Returns the lines of the state as other programs read it.
pub(super) fn lines_of(flags: &Flags) -> String {
    let seen = if flags.contains(SystemFlag::Seen) { "RO" } else { "O" };
    let letters: String =
        X_STATUS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(letter, _)| *letter).collect();
    let keywords: Vec<&str> = flags.keywords().iter().map(|keyword| keyword.as_str()).collect();
    let values = [seen, &letters, &keywords.join(" ")];
    OWN_LINES.iter().zip(values).map(|(name, value)| format!("{name}{value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(lines: &[&str]) -> (State, Vec<bool>) {
        let mut state = State::default();
        let taken = lines.iter().enumerate().map(|(at, line)| state.takes(line, at == 0)).collect();
        (state, taken)
    }

    #[test]
    fn headers_of_the_message_are_left_alone() {
        let (state, taken) = state(&["Subject: x", "X-Status-Page: y", "no header", "", "Xstatus"]);
        assert_eq!((state, taken), (State::default(), vec![false; 5]));
    }

    #[test]
    fn the_state_that_other_programs_keep_is_read() {
        let lines = ["Status: RO", "X-Status: AF", "x-keywords: todo  $Junk [x]", "X-Mozilla-Status: 1009", "X-UID: 7"];
        let (state, taken) = state(&lines);
        assert_eq!(taken, [true; 5]);
        let (flags, lost) = state.flags();
        assert_eq!(
            (flags.to_string(), lost),
            ("\\Answered \\Flagged \\Deleted \\Seen $Forwarded $Junk todo".to_owned(), 1)
        );
    }

    #[test]
    fn keywords_beyond_the_maximum_are_counted() {
        let words: String = (0..=MOST_WORDS + 1).map(|number| format!(" k{number}")).collect();
        let (flags, lost) = state(&[&format!("X-Keywords:{words}")]).0.flags();
        assert_eq!((flags.keywords().len(), lost), (MOST_WORDS, 2));
    }

    #[test]
    fn after_our_own_block_every_header_is_of_the_message() {
        let own = Own { octets: 12, is_verbatim: true, at: Timestamp::from_millis(-5) };
        let (mark, lines) = (own.write(), lines_of(&Flags::from_words(["\\Draft", "todo"])));
        let all: Vec<&str> = std::iter::once(mark.as_str()).chain(lines.lines()).chain(["Status: R"]).collect();
        let (state, taken) = state(&all);
        assert_eq!(taken, [true, true, true, true, false]);
        assert_eq!((state.own, state.flags().0.to_string()), (Some(own), "\\Draft todo".to_owned()));
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in "(X-Mailapi-Export: |Status:|x-mozilla-status:|octets=|; |ms=|-?[0-9]{1,20}|\\PC){0,8}") {
            let mut state = State::default();
            state.takes(&line, true);
            state.takes(&line, false);
            let _ = state.flags();
        }
    }
}
