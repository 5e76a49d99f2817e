//! Results of the doctor's checks.

use std::fmt::Display;

/// Result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Finding {
    what: &'static str,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Fine(String),
    Unknown(String),
    Noted { what_happened: String, advice: String },
    Wrong { why: String, mend: String },
}

impl Finding {
    /// The part works.
    pub(in crate::cli) fn fine(what: &'static str, how: impl Display) -> Self {
        Self { what, state: State::Fine(how.to_string()) }
    }

    /// The part cannot be checked from here.
    pub(in crate::cli) fn unknown(what: &'static str, why: impl Display) -> Self {
        Self { what, state: State::Unknown(why.to_string()) }
    }

    /// The part works, but failed in the past; the advice prevents a repetition.
    pub(in crate::cli) fn noted(what: &'static str, what_happened: impl Display, advice: impl Display) -> Self {
        let (what_happened, advice) = (what_happened.to_string(), advice.to_string());
        Self { what, state: State::Noted { what_happened, advice } }
    }

    /// The part does not work; `mend` is the suggested fix.
    pub(in crate::cli) fn wrong(what: &'static str, why: impl Display, mend: impl Display) -> Self {
        Self { what, state: State::Wrong { why: why.to_string(), mend: mend.to_string() } }
    }

    pub(in crate::cli) const fn is_wrong(&self) -> bool {
        matches!(self.state, State::Wrong { .. })
    }

    /// Formats the finding as one line; a second one suggests the fix.
    pub(in crate::cli) fn shown(&self) -> String {
        let what = self.what;
        match &self.state {
            State::Fine(how) => format!("ok     {what}: {how}\n"),
            State::Unknown(why) => format!("-      {what}: {why}\n"),
            State::Noted { what_happened, advice } => {
                format!("note   {what}: {what_happened}\n       advice: {advice}\n")
            }
            State::Wrong { why, mend } => format!("WRONG  {what}: {why}\n       to fix it: {mend}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_says_how_to_mend_it() {
        let wrong = Finding::wrong("IMAP", "connection refused", "start Dovecot");
        assert!(wrong.is_wrong() && wrong.shown().ends_with("to fix it: start Dovecot\n"));
        assert!(!Finding::unknown("doveadm", "not used").is_wrong());
        let noted = Finding::noted("log", "a file vanished", "keep it");
        assert!(!noted.is_wrong() && noted.shown().ends_with("advice: keep it\n"));
        assert_eq!(Finding::fine("IMAP", "it works").shown(), "ok     IMAP: it works\n");
    }
}
