//! Untagged responses of SELECT and EXAMINE, and those that report later changes.

use crate::flag::{Keyword, SystemFlag};
use crate::mailbox::DELIMITER;
use crate::server::command::UidRanges;
use crate::server::view::{SelectedView, Untagged};
use crate::token::Writer;

use super::fetch::{self, Changed};

/// The extensions that the client enabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct Enabled {
    pub(in crate::server) condstore: bool,
    pub(in crate::server) qresync: bool,
    pub(in crate::server) utf8: bool,
    pub(in crate::server) rev2: bool,
}

impl Enabled {
    /// Whether names and strings are UTF-8 (RFC 6855 section 3, RFC 9051 section 5.1).
    pub(in crate::server) const fn has_utf8(self) -> bool {
        self.utf8 || self.rev2
    }
}

/// Writes all responses that SELECT requires before its completion (RFC 3501 section 6.3.1, RFC 9051 section 6.3.2).
pub(in crate::server) fn write_selected(writer: &mut Writer, view: &SelectedView, enabled: Enabled) {
    write_flags(writer, view.keywords());
    writer.raw("* ").number(u64::from(view.exists())).raw(" EXISTS").crlf();
    if enabled.rev2 {
        writer.raw(&format!("* LIST () \"{DELIMITER}\" ")).mailbox(view.mailbox()).crlf();
    } else {
        writer.raw("* ").number(u64::from(view.recent_count())).raw(" RECENT").crlf();
        if let Some(unseen) = view.first_unseen() {
            writer.raw("* OK [UNSEEN ").number(u64::from(unseen)).raw("] First unseen message").crlf();
        }
    }
    if view.is_read_only() {
        writer.raw("* OK [PERMANENTFLAGS ()] No permanent flags permitted").crlf();
    } else {
        writer.raw("* OK [PERMANENTFLAGS ");
        let system = SystemFlag::ALL.map(SystemFlag::as_str);
        let keywords = view.keywords().map(Keyword::as_str);
        writer.list(system.into_iter().chain(keywords).chain(["\\*"]), |writer, word| {
            writer.raw(word);
        });
        writer.raw("] Flags permitted").crlf();
    }
    writer.raw("* OK [UIDVALIDITY ").number(u64::from(view.uid_validity())).raw("] UIDs are valid").crlf();
    writer.raw("* OK [UIDNEXT ").number(u64::from(view.uid_next())).raw("] Next UID").crlf();
    write_highest_modseq(writer, view);
    writer.raw("* OK [MAILBOXID (").raw(&view.mailbox_id().to_string()).raw(")] Identifier").crlf();
}

/// Writes `* OK [HIGHESTMODSEQ n]` (RFC 7162 section 3.1.2.1).
pub(in crate::server) fn write_highest_modseq(writer: &mut Writer, view: &SelectedView) {
    writer.raw("* OK [HIGHESTMODSEQ ").number(view.highest_modseq()).raw("] Highest").crlf();
}

/// Writes `* VANISHED (EARLIER) ...` (RFC 7162 section 3.2.10), unless there is no UID.
pub(in crate::server) fn write_vanished_earlier(writer: &mut Writer, uids: &UidRanges) {
    if !uids.is_empty() {
        writer.raw("* VANISHED (EARLIER) ").raw(&uids.to_string()).crlf();
    }
}

fn write_flags<'a>(writer: &mut Writer, keywords: impl Iterator<Item = &'a Keyword>) {
    let system = SystemFlag::ALL.map(SystemFlag::as_str);
    writer.raw("* FLAGS ");
    writer.list(system.into_iter().chain(keywords.map(Keyword::as_str)), |writer, word| {
        writer.raw(word);
    });
    writer.crlf();
}

/// Writes changes in the form that the client enabled. With QRESYNC, one VANISHED replaces all EXPUNGE responses.
pub(in crate::server) fn write_changes(writer: &mut Writer, changes: &[Untagged], enabled: Enabled) {
    if enabled.qresync {
        let uids = changes.iter().filter_map(|change| match change {
            Untagged::Expunge { uid, .. } => Some((*uid, *uid)),
            _ => None,
        });
        let vanished = UidRanges::from_ranges(uids.collect());
        if !vanished.is_empty() {
            writer.raw("* VANISHED ").raw(&vanished.to_string()).crlf();
        }
    }
    for change in changes {
        write_change(writer, change, enabled);
    }
}

fn write_change(writer: &mut Writer, change: &Untagged, enabled: Enabled) {
    match change {
        Untagged::Expunge { .. } if enabled.qresync => {}
        Untagged::Expunge { number, .. } => {
            writer.raw("* ").number(u64::from(*number)).raw(" EXPUNGE").crlf();
        }
        Untagged::Exists(count) => {
            writer.raw("* ").number(u64::from(*count)).raw(" EXISTS").crlf();
        }
        Untagged::Recent(count) => {
            writer.raw("* ").number(u64::from(*count)).raw(" RECENT").crlf();
        }
        Untagged::Keywords(keywords) => write_flags(writer, keywords.iter()),
        Untagged::Flags { number, uid, flags, is_recent, modseq } => {
            let modseq = enabled.condstore.then_some(*modseq);
            let flags = Some((flags, *is_recent));
            fetch::write_change(writer, Changed { number: *number, uid: *uid, flags, modseq });
        }
        Untagged::Modseq { number, uid, modseq } if enabled.condstore => {
            let modseq = Some(*modseq);
            fetch::write_change(writer, Changed { number: *number, uid: *uid, flags: None, modseq });
        }
        // Without CONDSTORE, the client knows everything already.
        Untagged::Modseq { .. } => {}
    }
}
