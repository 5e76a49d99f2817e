//! The tagged response that completes a command.

use super::effect::Failure;
use crate::token::Writer;

/// A tagged response.
pub(super) struct Completion {
    status: Status,
    code: Option<String>,
    text: String,
}

#[derive(PartialEq, Eq)]
enum Status {
    Ok,
    No,
    Bad,
}

impl Completion {
    pub(super) fn ok(text: &str) -> Self {
        Self { status: Status::Ok, code: None, text: text.to_owned() }
    }

    pub(super) fn no(code: &str, text: &str) -> Self {
        Self { status: Status::No, code: Some(code.to_owned()), text: text.to_owned() }
    }

    /// NO without a response code.
    pub(super) fn refused(text: &str) -> Self {
        Self { status: Status::No, code: None, text: text.to_owned() }
    }

    pub(super) fn bad(text: &str) -> Self {
        Self { status: Status::Bad, code: None, text: text.to_owned() }
    }

    /// NO for a reply of the host that does not match the effect.
    pub(super) fn server_bug() -> Self {
        Self::no("SERVERBUG", "Internal error")
    }

    /// NO for a command that stores into a mailbox. TRYCREATE invites the client to create a missing one and retry
    /// (RFC 3501 section 7.1).
    pub(super) fn from_storing(failure: Failure) -> Self {
        match failure {
            Failure::NoSuchMailbox => Self::no("TRYCREATE", &failure.to_string()),
            other => Self::from(other),
        }
    }

    /// Adds a response code, given without brackets.
    pub(super) fn with_code(self, code: String) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Adds HIGHESTMODSEQ (RFC 7162 section 3.2.7) to an OK without a response code.
    pub(super) fn with_highest_modseq(self, modseq: u64) -> Self {
        if self.status != Status::Ok || self.code.is_some() {
            return self;
        }
        self.with_code(format!("HIGHESTMODSEQ {modseq}"))
    }

    pub(super) fn is_bad(&self) -> bool {
        self.status == Status::Bad
    }

    pub(super) fn write(&self, writer: &mut Writer, tag: &str) {
        let status = match self.status {
            Status::Ok => " OK ",
            Status::No => " NO ",
            Status::Bad => " BAD ",
        };
        writer.raw(tag).raw(status);
        if let Some(code) = &self.code {
            writer.raw("[").raw(code).raw("] ");
        }
        writer.text(&self.text).crlf();
    }
}

impl From<Failure> for Completion {
    fn from(failure: Failure) -> Self {
        Self::no(failure.code(), &failure.to_string())
    }
}
