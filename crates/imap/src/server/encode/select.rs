//! Untagged responses of SELECT and EXAMINE, and those that report later changes.

use crate::flag::{Keyword, SystemFlag};
use crate::server::view::{SelectedView, Untagged};
use crate::token::Writer;

use super::fetch;

/// Writes all responses that SELECT requires before its completion (RFC 3501 section 6.3.1).
pub(in crate::server) fn write_selected(writer: &mut Writer, view: &SelectedView) {
    write_flags(writer, view.keywords());
    writer.raw("* ").number(u64::from(view.exists())).raw(" EXISTS").crlf();
    writer.raw("* ").number(u64::from(view.recent_count())).raw(" RECENT").crlf();
    if let Some(unseen) = view.first_unseen() {
        writer.raw("* OK [UNSEEN ").number(u64::from(unseen)).raw("] First unseen message").crlf();
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
}

fn write_flags<'a>(writer: &mut Writer, keywords: impl Iterator<Item = &'a Keyword>) {
    let system = SystemFlag::ALL.map(SystemFlag::as_str);
    writer.raw("* FLAGS ");
    writer.list(system.into_iter().chain(keywords.map(Keyword::as_str)), |writer, word| {
        writer.raw(word);
    });
    writer.crlf();
}

/// Writes one change.
pub(in crate::server) fn write_untagged(writer: &mut Writer, change: &Untagged) {
    match change {
        Untagged::Expunge(number) => {
            writer.raw("* ").number(u64::from(*number)).raw(" EXPUNGE").crlf();
        }
        Untagged::Exists(count) => {
            writer.raw("* ").number(u64::from(*count)).raw(" EXISTS").crlf();
        }
        Untagged::Recent(count) => {
            writer.raw("* ").number(u64::from(*count)).raw(" RECENT").crlf();
        }
        Untagged::Keywords(keywords) => write_flags(writer, keywords.iter()),
        Untagged::Flags { number, uid, flags, is_recent } => {
            fetch::write_flags(writer, *number, *uid, flags, *is_recent);
        }
    }
}
