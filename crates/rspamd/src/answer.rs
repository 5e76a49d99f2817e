//! The answer of rspamd.

use serde::Deserialize;

use crate::RspamdError;

/// Maximum length of a text for the sender: it fits into a line of a reply.
const MAX_TEXT: usize = 200;

/// What rspamd found.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What it asks for.
    pub action: Action,
    /// The sum of its findings; a higher one is more likely spam.
    pub score: f64,
    /// The score at which it refuses a message.
    pub required: f64,
    /// The text for the sender in one line of printable ASCII, if it gives one.
    pub text: Option<String>,
}

/// What rspamd asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To deliver the message.
    Accept,
    /// To mark the message as spam.
    Mark,
    /// To refuse the message for now.
    Defer,
    /// To refuse the message.
    Reject,
}

#[derive(Deserialize)]
struct Answer {
    action: String,
    #[serde(default)]
    score: f64,
    #[serde(default)]
    required_score: f64,
    #[serde(default)]
    messages: Option<Messages>,
}

/// Other members of this object have other types.
#[derive(Deserialize)]
#[serde(untagged)]
enum Messages {
    Object {
        #[serde(default)]
        smtp_message: Option<String>,
    },
    /// Old versions send a list.
    Other(serde::de::IgnoredAny),
}

/// Parses the body of an answer.
pub(crate) fn parse(body: &[u8]) -> Result<Verdict, RspamdError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| RspamdError::Answer(error.to_string()))?;
    let action = action(&answer.action)
        .ok_or_else(|| RspamdError::Answer(format!("unknown action `{}`", printable(&answer.action))))?;
    let text = match answer.messages {
        Some(Messages::Object { smtp_message }) => smtp_message,
        Some(Messages::Other(_)) | None => None,
    };
    let text = text.map(|text| printable(&text)).filter(|text| !text.is_empty());
    Ok(Verdict { action, score: answer.score, required: answer.required_score, text })
}

/// Returns the action with this name; `None` if it is unknown.
fn action(name: &str) -> Option<Action> {
    match name {
        // rspamd defers a message by `soft reject`. `greylist` only names a range of scores: without the module of that
        // name, every attempt to deliver the message would get it.
        "no action" | "greylist" => Some(Action::Accept),
        // Mail in a mailbox can be found; mail that was discarded cannot.
        "add header" | "rewrite subject" | "quarantine" => Some(Action::Mark),
        "soft reject" => Some(Action::Defer),
        "reject" | "discard" => Some(Action::Reject),
        _ => None,
    }
}

fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.trim().chars().take(MAX_TEXT).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(body: &str) -> Result<Verdict, String> {
        parse(body.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_without_a_known_action_are_errors() {
        for body in ["", "<html>", "{}", "[]", "{\"action\":1}", "{\"action\":\"reject\"", "{\"action\":\"Reject\"}"] {
            assert!(parsed(body).is_err(), "{body}");
        }
        let unknown = parsed("{\"action\":\"tarpit\\r\\n250 \"}").unwrap_err();
        assert_eq!(unknown, "rspamd gave no valid answer: unknown action `tarpit??250`");
    }

    #[test]
    fn each_action_has_its_meaning() {
        for (name, expected) in [
            ("no action", Action::Accept),
            ("greylist", Action::Accept),
            ("add header", Action::Mark),
            ("rewrite subject", Action::Mark),
            ("quarantine", Action::Mark),
            ("soft reject", Action::Defer),
            ("reject", Action::Reject),
            ("discard", Action::Reject),
        ] {
            let body = format!("{{\"symbols\":{{}},\"action\":\"{name}\",\"score\":7.5,\"required_score\":15}}");
            let expected = Verdict { action: expected, score: 7.5, required: 15.0, text: None };
            assert_eq!(parsed(&body), Ok(expected), "{name}");
        }
    }

    #[test]
    fn the_text_for_the_sender_is_one_line() {
        for (messages, expected) in [
            ("{\"smtp_message\":\"Gtube\\r\\n250 pattern é \"}", Some("Gtube??250 pattern ?")),
            ("{\"smtp_message\":\"  \",\"other\":[1]}", None),
            ("{\"smtp_message\":null}", None),
            ("[\"a\"]", None),
            ("{}", None),
        ] {
            let verdict = parsed(&format!("{{\"action\":\"reject\",\"messages\":{messages}}}")).unwrap();
            assert_eq!(verdict.text.as_deref(), expected, "{messages}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read(body in prop::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
            let _ = parse(&body);
            let body = format!("{{\"action\":\"reject\",\"messages\":{{\"smtp_message\":{text:?}}}}}");
            if let Ok(verdict) = parse(body.as_bytes()) {
                let text = verdict.text.unwrap_or_default();
                prop_assert!(text.len() <= MAX_TEXT && text.bytes().all(|b| (b' '..=b'~').contains(&b)));
            }
        }
    }
}
