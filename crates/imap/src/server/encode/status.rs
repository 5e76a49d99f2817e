//! STATUS responses.

use crate::mailbox::MailboxName;
use crate::server::ObjectId;
use crate::server::command::StatusItem;
use crate::token::Writer;

/// The counts of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxStatus {
    /// The number of messages.
    pub messages: u32,
    /// The number of messages that are `\Recent` to the next session; 0 unless the client requests it.
    pub recent: u32,
    /// The number of messages without `\Seen`.
    pub unseen: u32,
    /// The number of messages with `\Deleted`; 0 unless the client requests it.
    pub deleted: u32,
    /// The UID of the next message.
    pub uid_next: u32,
    /// UIDVALIDITY; changes when UIDs are reassigned.
    pub uid_validity: u32,
    /// The sum of the messages' sizes in octets.
    pub size: u64,
    /// The modification sequence of the last change (RFC 7162).
    pub highest_modseq: u64,
    /// The identifier of the mailbox (RFC 8474).
    pub mailbox_id: ObjectId,
}

/// Writes `* STATUS name (...)`.
pub(in crate::server) fn write(
    writer: &mut Writer,
    mailbox: &MailboxName,
    items: &[StatusItem],
    status: &MailboxStatus,
    append_limit: u64,
) {
    writer.raw("* STATUS ").mailbox(mailbox).raw(" ");
    writer.list(items, |writer, item| {
        let (name, value) = match item {
            StatusItem::Messages => ("MESSAGES ", u64::from(status.messages)),
            StatusItem::Recent => ("RECENT ", u64::from(status.recent)),
            StatusItem::UidNext => ("UIDNEXT ", u64::from(status.uid_next)),
            StatusItem::UidValidity => ("UIDVALIDITY ", u64::from(status.uid_validity)),
            StatusItem::Unseen => ("UNSEEN ", u64::from(status.unseen)),
            StatusItem::Deleted => ("DELETED ", u64::from(status.deleted)),
            StatusItem::Size => ("SIZE ", status.size),
            StatusItem::AppendLimit => ("APPENDLIMIT ", append_limit),
            StatusItem::HighestModseq => ("HIGHESTMODSEQ ", status.highest_modseq),
            StatusItem::MailboxId => {
                writer.raw("MAILBOXID (").raw(&status.mailbox_id.to_string()).raw(")");
                return;
            }
        };
        writer.raw(name).number(value);
    });
    writer.crlf();
}
