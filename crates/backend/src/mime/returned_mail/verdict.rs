//! What a notice says about the delivery as a whole. Few and general words; a notice that they do not cover fails no
//! recipient.

/// The message did not reach the addresses that the notice names.
const FAILED: [&str; 42] = [
    "not be delivered",
    "n't be delivered",
    "cannot be delivered",
    "not been delivered",
    "not delivered",
    "n't delivered",
    "not able to deliver",
    "n't able to deliver",
    "unable to deliver",
    "not deliver",
    "n't deliver",
    "undeliver",
    "non-delivery",
    "nondelivery",
    "delivery failed",
    "delivery failure",
    "delivery has failed",
    "delivery problem",
    "delivery error",
    "failed to deliver",
    "failed delivery",
    "failed because",
    "recipients failed",
    "recipient failed",
    "addresses failed",
    "address failed",
    "address(es) failed",
    "recipient(s) failed",
    "failed permanently",
    "failed addresses",
    "failed recipients",
    "did not reach",
    "not be reached",
    "did not receive",
    "fatal error",
    "permanent error",
    "error delivering",
    "error has occurred while attempting to deliver",
    "invalid final delivery",
    "returned because",
    "was aborted",
    "mail failed",
];

/// The server still tries, waits, or asks for something. A negation before the phrase turns it round.
const WAITS: [&str; 52] = [
    "be retried",
    "is retried",
    "are retried",
    "being retried",
    "will retry",
    "retry for",
    "retry until",
    "retrying",
    "will continue",
    "ll continue",
    "continue to try",
    "continue to attempt",
    "continue to be attempted",
    "continue to deliver",
    "continue trying",
    "continues to try",
    "keep trying",
    "keeps trying",
    "still trying",
    "still being",
    "delayed",
    "postponed",
    "try again for",
    "will try",
    "ll try",
    "tries again",
    "be tried again",
    "be attempted",
    "will attempt to deliver",
    "will attempt delivery",
    "will attempt again",
    "another attempt",
    "is queued for",
    "been queued for",
    "in the queue on",
    "in queue",
    "remains in the queue",
    "warning only",
    "warning message",
    "a warning",
    "advisory",
    "awaiting",
    "awaits",
    "on hold",
    "held for",
    "being held",
    "is held",
    "been held",
    "quarantine",
    "will be delivered",
    "be resent automatically",
    "to be confirmed",
];

/// The same in words that no negation turns round.
const NO_ACTION: [&str; 9] = [
    "not yet",
    "no action",
    "not need to",
    "n't need to",
    "need not",
    "no need to",
    "not have to",
    "do not resend",
    "don't resend",
];

/// Someone answers who is away, or a program for that.
const AWAY: [&str; 13] = [
    "out of office",
    "out of the office",
    "out-of-office",
    "automatic reply",
    "automatic response",
    "auto-reply",
    "autoreply",
    "auto reply",
    "autoresponder",
    "on vacation",
    "on holiday",
    "on leave",
    "i am away",
];

/// Words of a message that arrived, unless they are negated or conditional.
const ARRIVED: [&str; 8] =
    ["delivered", "relayed", "expanded", "successful", "successfully", "succeeded", "displayed", "forwarded"];
/// Words that negate or condition one of the next few words.
const NEGATIONS: [&str; 27] = [
    "not",
    "never",
    "cannot",
    "no",
    "unable",
    "fail",
    "failed",
    "failure",
    "failing",
    "without",
    "nor",
    "neither",
    "be",
    "being",
    "if",
    "whether",
    "may",
    "might",
    "unless",
    "until",
    "before",
    "when",
    "once",
    "to",
    "undelivered",
    "stopped",
    "longer",
];
/// How far a negation reaches, in words.
const REACH: usize = 5;

/// What a notice says about the delivery as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Verdict {
    /// It says that delivery failed.
    pub(super) is_failure: bool,
    /// It says, also, that the server still tries, that some address has the message, or that someone is away. What such
    /// a notice says between the lines is never a failure.
    pub(super) is_doubtful: bool,
}

impl Verdict {
    /// Judges a subject and the text, without the lines that quote a header.
    pub(super) fn of(subject: &str, text: &str) -> Self {
        let (subject, text) = (on_one_line(subject), on_one_line(text));
        // A notice may quote the subject of its message, so only what servers begin with counts.
        let subject_waits = !begins_with_failure(&subject)
            && (subject.starts_with("warning")
                || subject.contains("(delay")
                || waits(&subject)
                || has_arrived(&subject));
        let is_away = AWAY.iter().any(|words| subject.contains(words) || text.contains(words));
        Self {
            is_failure: says_failed(&subject) || is_returned(&subject) || says_failed(&text),
            is_doubtful: subject_waits || is_away || waits(&text) || has_arrived(&text),
        }
    }
}

/// Whether a passage says that delivery failed.
pub(super) fn is_failure_statement(text: &str) -> bool {
    says_failed(&on_one_line(text))
}

fn says_failed(line: &str) -> bool {
    FAILED.iter().any(|words| line.contains(words))
}

/// Subjects that say it in other words.
fn is_returned(subject: &str) -> bool {
    const SUBJECTS: [&str; 8] = [
        "returned mail",
        "failure notice",
        "(failure)",
        "returned to sender",
        "returning message to sender",
        "delivery status notification: error",
        "delivery failure",
        "failure delivery",
    ];
    SUBJECTS.iter().any(|words| subject.contains(words))
}

/// Whether a notice of failure quotes the subject of its message behind such words.
fn begins_with_failure(subject: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "undeliver",
        "non-delivery",
        "returned mail",
        "mail delivery failed",
        "mail delivery failure",
        "delivery failure",
        "delivery failed",
        "failure notice",
        "failed mail",
    ];
    BEGINNINGS.iter().any(|words| subject.starts_with(words))
}

fn waits(line: &str) -> bool {
    let is_meant = |words: &str| line.match_indices(words).any(|(place, _)| !is_negated(&line[..place]));
    NO_ACTION.iter().any(|words| line.contains(words)) || WAITS.iter().any(|words| is_meant(words))
}

/// Negations before a phrase about waiting: `will not be retried`, `I'm not going to try again`.
fn is_negated(before: &str) -> bool {
    let words = before.split_whitespace().rev().take(REACH);
    let mut clause = words.take_while(|word| !ends_sentence(word));
    clause.any(|word| matches!(trimmed(word), "not" | "no" | "never" | "cannot" | "nor" | "without") || is_not(word))
}

/// Whether a passage says that the message arrived somewhere.
fn has_arrived(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_meant = |place: usize| {
        let before = words[place.saturating_sub(REACH)..place].iter().rev();
        let mut clause = before.take_while(|word| !ends_sentence(word));
        // `(expanded from list@far.example)` says where an address comes from.
        let is_origin =
            words[place].starts_with('(') && words.get(place + 1).is_some_and(|next| next.starts_with("from"));
        !is_origin && !clause.any(|word| NEGATIONS.contains(&trimmed(word)) || is_not(word))
    };
    (0..words.len()).any(|place| ARRIVED.contains(&trimmed(words[place])) && is_meant(place))
}

fn is_not(word: &str) -> bool {
    let word = trimmed(word);
    word.ends_with("n't") || word.ends_with("n\u{2019}t")
}

fn ends_sentence(word: &str) -> bool {
    word.ends_with(['.', '!', '?', ';', ':'])
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase().replace('\u{2019}', "'")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(subject: &str, text: &str) -> (bool, bool) {
        let verdict = Verdict::of(subject, text);
        (verdict.is_failure, verdict.is_doubtful)
    }

    #[test]
    fn a_failure_is_said_in_many_words() {
        for text in [
            "Your message could not be\ndelivered to all recipients.",
            "I'm afraid I wasn't able to deliver your message.",
            "I\u{2019}m not going to try again; it wasn\u{2019}t delivered.",
            "Delivery to the following recipient failed permanently:",
            "It has NOT been delivered, and will not be retried.",
            "Undeliverable to zoe@far.example",
            "It was not delivered successfully.",
            "Please verify the address(es) and try again: unable to deliver.",
        ] {
            assert_eq!(verdict("", text), (true, false), "{text}");
        }
        assert_eq!(verdict("Returned mail: see transcript", "Sorry"), (true, false));
        assert_eq!(
            verdict("Undeliverable: Your order is delayed", "<zoe@far.example> (expanded from x)"),
            (true, false)
        );
    }

    #[test]
    fn any_sign_of_something_else_is_a_doubt() {
        for (subject, text) in [
            ("Warning: message 1 delayed 24 hours", "x"),
            ("Message delayed (zoe@far.example)", "x"),
            ("Delivery Status Notification (Delay)", "x"),
            ("", "Delivery attempts will continue."),
            ("", "It could not be delivered yet. It will be retried for 5 days."),
            ("", "No action is required on your part."),
            ("", "Your message was delivered to: a. It could not be delivered to: b."),
            ("", "These were delivered successfully."),
            ("", "Your message is being held until a moderator has seen it."),
            ("Automatic reply: Hello", "I am back on Monday."),
            ("Out of office", "x"),
            ("Relayed: Hello", "x"),
        ] {
            assert!(Verdict::of(subject, text).is_doubtful, "{subject} {text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged(subject in "\\PC{0,40}", text in "(not |delivered|be retried|will |\u{2019}|\u{130}|\\PC|\n){0,40}") {
            let _ = Verdict::of(&subject, &text);
        }
    }
}
