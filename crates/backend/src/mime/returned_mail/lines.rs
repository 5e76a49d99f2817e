//! The lines of a notice: which ones the server wrote, which of them list addresses, and which addresses they mention.

use mailapi_model::EmailAddress;

/// Bytes of a text that are read.
const MAX_BYTES: usize = 256 * 1024;
/// Bytes of a line that are read. Replies have at most 512 (RFC 5321 section 4.5.3.1.5); servers join their lines.
const MAX_LINE: usize = 4 * 1024;

/// With a rule of dashes before them, these words begin a copy of the message.
const RULED: [&str; 9] = [
    "forwarded message",
    "original message",
    "copy of",
    "message header",
    "header of",
    "body of the message",
    "returned m",
    "message text follows",
    "unsent message",
];
/// These begin it without a rule, too.
const COPIES: [&str; 18] = [
    "original message follow",
    "original message:",
    "original message attached",
    "original message as received",
    "old message:",
    "message headers follow",
    "message header follows",
    "here is a copy",
    "below is a copy",
    "below this line is a copy",
    "a copy of the original message",
    "this is a copy of",
    "your message reads",
    "the body of the message is",
    "the header of the original message",
    "returned mail follows",
    "unsent message below",
    "a summary of the undelivered message",
];
/// Fields that begin the header of a copy.
const COPIED_FIELDS: [&str; 5] = ["received:", "return-path:", "message-id:", "mime-version:", "dkim-signature:"];
/// Fields that servers quote of the message. They name the addressees, and not what became of it.
const QUOTED_FIELDS: [&str; 11] =
    ["to:", "cc:", "bcc:", "from:", "sender:", "subject:", "sent:", "date:", "reply-to:", "x-mailer:", "with subject "];
/// Words before the address of a sender or of someone who helps.
const OTHERS: [&str; 15] = [
    "from",
    "sender",
    "by",
    "via",
    "contact",
    "ask",
    "write",
    "mailto",
    "assistance",
    "help",
    "questions",
    "inform",
    "support",
    "reply-to",
    "postmaster",
];
/// How far such a word reaches.
const REACH: usize = 6;

/// Returns the paragraphs that the server wrote: without a copy of the message, and without quoted fields and lines.
pub(super) fn paragraphs(text: &str) -> Vec<Vec<&str>> {
    let text = &text[..text.floor_char_boundary(MAX_BYTES)];
    let mut paragraphs = vec![Vec::new()];
    let mut quoted_at = None;
    for line in text.lines().map(|line| &line[..line.floor_char_boundary(MAX_LINE)]) {
        let bare = line.trim_start();
        let indentation = line.len() - bare.len();
        if begins_copy(line) {
            break;
        }
        if bare.trim_matches(|c: char| c.is_whitespace() || "-=*_#|~".contains(c)).is_empty() {
            (quoted_at, _) = (None, paragraphs.push(Vec::new()));
        } else if begins_with(bare, &QUOTED_FIELDS) {
            quoted_at = Some(indentation);
        } else if quoted_at.is_none_or(|field| indentation <= field) && !is_quoted(bare) {
            quoted_at = None;
            paragraphs.last_mut().into_iter().for_each(|paragraph| paragraph.push(line));
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// `>` begins a line of another mail, and `>>>` a command in the transcript of a session.
fn is_quoted(line: &str) -> bool {
    line.starts_with('>') && !line.starts_with(">>>")
}

fn begins_copy(line: &str) -> bool {
    let bare = line.trim_start();
    let is_ruled = bare.starts_with(['-', '=', '*', '_', '|']);
    let words = bare.trim_start_matches(|c: char| c.is_whitespace() || "-=*_|>".contains(c));
    let words = words[..words.floor_char_boundary(200)].to_lowercase();
    COPIES.iter().any(|copy| words.starts_with(copy))
        || (is_ruled && RULED.iter().any(|copy| words.contains(copy)))
        || (bare.len() == line.len() && begins_with(bare, &COPIED_FIELDS))
}

fn begins_with(line: &str, names: &[&str]) -> bool {
    names.iter().any(|name| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
}

/// Addresses at the beginning of a line, as lists have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListLine {
    /// Empty if the server conceals the address.
    pub(super) addresses: Vec<EmailAddress>,
    /// Whether the line has nothing else.
    pub(super) is_bare: bool,
}

/// Reads a line of a list: `<ann@far.example>: reason`, `* ann@far.example`, `"Ann" <ann@far.example>`, or a command RCPT.
pub(super) fn list_line(line: &str) -> Option<ListLine> {
    const CONCEALED: &str = "an undisclosed address";
    let line = line.trim();
    let command = line.trim_start_matches(['>', ' ']);
    if begins_with(command, &["rcpt to:"]) {
        let address = command["rcpt to:".len()..].split_whitespace().next().and_then(address)?;
        return Some(ListLine { addresses: vec![address], is_bare: false });
    }
    let listed = line.trim_start_matches(|c: char| c.is_whitespace() || "*-\u{2022}\u{b7}+|".contains(c));
    if begins_with(listed, &[CONCEALED]) {
        return Some(ListLine { addresses: Vec::new(), is_bare: true });
    }
    if listed.ends_with("wrote:") {
        return None;
    }
    let words: Vec<&str> =
        listed.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
    let all = || words.iter().filter(|word| !word.eq_ignore_ascii_case("and")).map(|word| address(word));
    if let Some(addresses) = all().collect::<Option<Vec<_>>>().filter(|addresses| !addresses.is_empty()) {
        return Some(ListLine { addresses, is_bare: true });
    }
    let is_sender = words.get(1).is_some_and(|next| begins_with(next, &["sender"]));
    let first = words.first().and_then(|word| address(word)).filter(|_| !is_sender);
    if let Some(first) = first.filter(|_| !listed.starts_with('"')) {
        return Some(ListLine { addresses: vec![first], is_bare: false });
    }
    let named = listed.starts_with('"').then(|| words.last().filter(|word| word.starts_with('<'))).flatten();
    named.and_then(|word| address(word)).map(|address| ListLine { addresses: vec![address], is_bare: true })
}

/// Returns the addresses in a line that may be recipients: not those of senders, nor those of someone who helps.
pub(super) fn mentions(line: &str) -> Vec<EmailAddress> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_other = |place: usize| {
        let before = words[place.saturating_sub(REACH)..place].iter().rev();
        let mut clause = before.take_while(|word| !word.ends_with(['.', '!', '?', ';']));
        let next = words.get(place + 1).map(|next| next.to_lowercase()).unwrap_or_default();
        // `from ann@example.org to zoe@far.example` names a recipient, too.
        let nearest = clause.find_map(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            let is_to = matches!(word.as_str(), "to" | "for" | "recipient");
            (is_to || OTHERS.contains(&word.as_str())).then_some(!is_to)
        });
        let command = words[place].to_lowercase();
        nearest == Some(true) && !command.starts_with("to:")
            || command.contains("from:")
            || command.contains("mailto:")
            || next.starts_with("sender")
    };
    (0..words.len()).filter(|place| !is_other(*place)).filter_map(|place| address(words[place])).collect()
}

/// Parses a word as an address, without brackets and the marks around it.
pub(super) fn address(word: &str) -> Option<EmailAddress> {
    if !word.contains('@') {
        return None;
    }
    let is_mark = |c: char| c.is_whitespace() || "<>()[],;\"'`\u{2018}\u{2019}:.*".contains(c);
    let word = word.trim_matches(is_mark);
    // Reply and text may stand beside the address without a blank.
    let word = word.split(['<', '>', '(', ')', '[', ']', ';', '"']).find(|part| part.contains('@'))?;
    let word =
        word.rsplit_once(':').map_or(word, |(before, behind)| if behind.contains('@') { behind } else { before });
    EmailAddress::as_given(word.trim_matches(is_mark)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(line: &str) -> Option<Vec<String>> {
        Some(list_line(line)?.addresses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn addresses_at_the_beginning_of_a_line_are_a_list() {
        for line in [
            "<zoe@far.example>:",
            "zoe@far.example: 550 no",
            "  * zoe@far.example",
            "\"Zoe\" <zoe@far.example>",
            ">>> RCPT To:<zoe@far.example>",
            "zoe@far.example... unknown host",
            "'zoe@far.example',",
        ] {
            assert_eq!(listed(line).unwrap(), ["zoe@far.example"], "{line}");
        }
        assert_eq!(listed("zoe@far.example, joe@far.example").unwrap(), ["zoe@far.example", "joe@far.example"]);
        assert_eq!(listed("an undisclosed address").unwrap(), [""; 0]);
        for line in ["", "Dear zoe@far.example", "zoe@far.example wrote:", "550 5.1.1 <zoe@far.example> no", "@", "- -"]
        {
            assert_eq!(listed(line), None, "{line}");
        }
    }

    #[test]
    fn senders_and_helpers_are_no_recipients() {
        let mentioned = |line: &str| mentions(line).iter().map(ToString::to_string).collect::<Vec<_>>();
        for line in [
            "from ann@here.example, to zoe@far.example",
            "Your message to <zoe@far.example>. Please contact postmaster@far.example",
            "MAIL FROM:<ann@here.example> RCPT TO:<zoe@far.example>",
        ] {
            assert_eq!(mentioned(line), ["zoe@far.example"], "{line}");
        }
        assert_eq!(mentioned("<ann@here.example>: Sender rejected"), [""; 0]);
        assert_eq!(listed("<ann@here.example>: Sender rejected"), None);
    }

    #[test]
    fn what_is_quoted_is_no_part_of_the_notice() {
        let text = "Sorry.\n\n  To: ann@far.example,\n      bob@far.example\n  Subject: x\n\nbye\n> zoe@far.example\n--- Below is a copy of it\nx";
        assert_eq!(paragraphs(text), [["Sorry."], ["bye"]]);
        assert_eq!(paragraphs("a\nReceived: from b\nc"), [["a"]]);
        assert_eq!(paragraphs("a\n-----\nb"), [["a"], ["b"]]);
    }
}
