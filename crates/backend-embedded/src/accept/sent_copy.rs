//! Copies of sent messages in the folder for sent mail.

use mailapi_imap::Flags;
use mailapi_model::{SaveSent, Timestamp};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::contents::StoredForms;
use super::unusable::{Failed, Unusable};
use super::{Incoming, Prepared};
use crate::MessageStoreSettings;
use crate::message_store::mailbox::Mailbox;
use crate::message_store::{
    EntryRecipient, NewEntry, Touched, enqueue_for_index, entry, folder, mailbox, to_flag_columns,
};

/// Copies a sent message to its author's folder for sent mail, if the mailbox has that option. A copy that does not fit
/// in the quota, or whose mailbox is damaged, is left out: the message has been accepted for its recipients.
pub(super) fn save(
    connection: &Connection,
    mail: &Prepared,
    settings: &MessageStoreSettings,
    forms: &mut StoredForms<'_>,
    unusable: &Unusable,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), Failed> {
    let takes = |mailbox: &Mailbox| mailbox.has_room_for(mail.content.size()) && !unusable.contains(mailbox.id);
    let mailbox = match mailbox_for(connection, mail) {
        // Without its row, there is no mailbox to blame.
        Err(error) if Failed::is_of_row(&error) => None,
        found => found?.filter(takes),
    };
    let Some(mailbox) = mailbox else { return Ok(()) };
    let blamed = Failed::in_store(mailbox.id);
    let (folder, _) = folder::special(connection, mailbox.id, folder::SENT, now).map_err(&blamed)?;
    let flags = to_flag_columns(&Flags::from_words(["\\Seen"]), settings.max_keywords).map_err(&blamed)?;
    let (content, size) = (forms.received()?, mail.content.size());
    let recipient = EntryRecipient::Written(None);
    let entry = NewEntry { content, flags: &flags, internal_date: now, size, saved_at: now, recipient };
    entry::add(connection, folder, &entry).map_err(&blamed)?;
    enqueue_for_index(connection, content)?;
    touched.mailbox(mailbox.id);
    touched.chores();
    Ok(())
}

/// Returns the mailbox that gets a copy of a sent message: the author's, or the one that logged in if the author has
/// none, such as an alias. The author's own address may have a tag.
fn mailbox_for(connection: &Connection, mail: &Prepared) -> Result<Option<Mailbox>, StoreError> {
    let Incoming { submitter, message_id, sender, .. } = &mail.incoming;
    let (author, other, by_api) = match (submitter, message_id, sender) {
        (Some(submitter), _, _) => (&submitter.from, Some(submitter.mailbox.clone()), false),
        (None, Some(_), Some(sender)) => (sender, sender.without_tag(), true),
        _ => return Ok(None),
    };
    for author in [Some(author.clone()), other].into_iter().flatten() {
        if let Some(mailbox) = mailbox::find(connection, &author)? {
            let is_saved = match mailbox::save_sent(connection, mailbox.id)? {
                SaveSent::Off => false,
                SaveSent::Api => by_api,
                SaveSent::All => true,
            };
            return Ok(is_saved.then_some(mailbox));
        }
    }
    Ok(None)
}
