//! Commands valid in every state: CAPABILITY, NOOP, LOGOUT, ID.

use super::completion::Completion;
use super::{Flow, Phase, Session};
use crate::server::command::Command;

/// Extensions valid in every state.
const EXTENSIONS: &str = "LITERAL+ SASL-IR ID ENABLE IDLE UIDPLUS MOVE UNSELECT NAMESPACE SPECIAL-USE CHILDREN \
    LIST-EXTENDED LIST-STATUS ESEARCH QUOTA QUOTA=RES-STORAGE STATUS=SIZE CONDSTORE QRESYNC SEARCHRES WITHIN \
    SORT SORT=DISPLAY ESORT THREAD=ORDEREDSUBJECT THREAD=REFERENCES CREATE-SPECIAL-USE \
    MULTIAPPEND PREVIEW OBJECTID SAVEDATE BINARY \
    UTF8=ACCEPT";

impl Session {
    /// The current capabilities.
    pub(super) fn capabilities(&self) -> String {
        let mut all = format!("IMAP4rev1 IMAP4rev2 {EXTENSIONS} APPENDLIMIT={}", self.config.limits.max_message);
        if matches!(self.phase, Phase::NotAuthenticated) {
            if self.offers_starttls() {
                all.push_str(" STARTTLS");
            }
            all.push_str(if self.takes_passwords() { " AUTH=PLAIN" } else { " LOGINDISABLED" });
        }
        // After the login only: an unauthenticated client must not make the server hold a dictionary.
        if !matches!(self.phase, Phase::NotAuthenticated) && !self.compressed {
            all.push_str(" COMPRESS=DEFLATE");
        }
        all
    }

    pub(super) fn offers_starttls(&self) -> bool {
        self.config.starttls && !self.tls
    }

    pub(super) fn takes_passwords(&self) -> bool {
        self.tls || self.config.plaintext_login
    }
}

/// Runs the command, or returns it if it is not valid in every state.
pub(super) fn run(session: &mut Session, command: Command) -> Result<Flow, Command> {
    let text = match command {
        Command::Capability => {
            let capabilities = session.capabilities();
            session.out.raw("* CAPABILITY ").raw(&capabilities).crlf();
            "CAPABILITY completed"
        }
        Command::Id => {
            session.out.raw("* ID (\"name\" ").string(session.config.product.as_bytes()).raw(")").crlf();
            "ID completed"
        }
        Command::Logout => {
            session.bye("Logging out");
            "LOGOUT completed"
        }
        // With a mailbox selected, NOOP reports changes, so the selected state handles it.
        Command::Noop if session.selected().is_none() => "NOOP completed",
        other => return Err(other),
    };
    Ok(Flow::Complete(Completion::ok(text)))
}
