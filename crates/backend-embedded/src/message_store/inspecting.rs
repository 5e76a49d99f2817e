//! Sequential access to the messages of a folder, as IMAP needs it. Only the requested parts are read.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};

use mailapi_backend::mime::{MessageStructure, beginning};
use mailapi_model::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::FolderId;
use super::search::Share;
use super::{EntryMeta, Layout, MessageStore, MessageStoreError, content, entry, index, pieces};

/// A message with lazy access to its parts.
pub(crate) struct Inspected<'c> {
    connection: &'c Connection,
    meta: EntryMeta,
    /// Bytes read so far.
    read: Cell<u64>,
}

impl<'c> Inspected<'c> {
    fn new(connection: &'c Connection, meta: EntryMeta) -> Self {
        Self { connection, meta, read: Cell::new(0) }
    }

    /// Returns the stored entry.
    pub(crate) const fn meta(&self) -> &EntryMeta {
        &self.meta
    }

    /// Returns the location of the bytes.
    pub(crate) fn layout(&self) -> Result<Layout, MessageStoreError> {
        let layout = content::layout(self.connection, self.meta.content)?;
        Ok(layout.delivered_to(self.meta.delivered_to.as_deref()))
    }

    /// Returns the length of the header block, with our lines.
    pub(crate) fn header_len(&self, layout: &Layout) -> Result<u64, MessageStoreError> {
        Ok(layout.return_path_len + content::structure(self.connection, self.meta.content)?.header_len)
    }

    /// Returns the header block.
    pub(crate) fn header(&self) -> Result<Vec<u8>, MessageStoreError> {
        let layout = self.layout()?;
        self.bytes(&layout, 0..self.header_len(&layout)?)
    }

    /// Returns a range of the bytes.
    pub(crate) fn bytes(&self, layout: &Layout, range: Range<u64>) -> Result<Vec<u8>, MessageStoreError> {
        let bytes = pieces::read_range(self.connection, layout, range)?;
        self.read.update(|read| read.saturating_add(bytes.len() as u64));
        Ok(bytes)
    }

    /// Returns the structure that was stored when the message arrived.
    pub(crate) fn structure(&self) -> Result<MessageStructure, MessageStoreError> {
        content::structure(self.connection, self.meta.content)
    }

    /// Returns the time in the Date header, or that of the receipt without a readable one.
    pub(crate) fn sent(&self) -> Result<Timestamp, MessageStoreError> {
        let sql = "SELECT date FROM drop_messages WHERE id = ?1";
        let millis = self.connection.prepare_cached(sql)?.query_row(params![self.meta.content], |row| row.get(0))?;
        Ok(Timestamp::from_millis(millis))
    }

    /// Returns the beginning of the text, as events and searches show it.
    pub(crate) fn preview(&self) -> Result<String, MessageStoreError> {
        let layout = self.layout()?;
        beginning(&self.structure()?, |span| {
            let start = layout.return_path_len.saturating_add(span.offset);
            self.bytes(&layout, start..start.saturating_add(span.length))
        })
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// Returns the whole message as received, without our lines.
    pub(crate) fn received(&self) -> Result<Vec<u8>, MessageStoreError> {
        let layout = self.layout()?;
        self.bytes(&layout, layout.return_path_len..layout.whole().end)
    }

    /// Returns the text that a search covers (`SearchableText::joined`): subject, from, to, cc and body, one
    /// line each.
    pub(crate) fn searchable(&self) -> Result<String, MessageStoreError> {
        let sql = "SELECT text FROM drop_texts WHERE message_id = ?1";
        let kept = self.connection.prepare_cached(sql)?.query_row(params![self.meta.content], |row| row.get(0));
        let text = match kept.optional()? {
            Some(text) => text,
            None => {
                // Without a stored text, the whole message is read.
                self.read.update(|read| read.saturating_add(self.meta.size));
                index::text_of(self.connection, self.meta.content)?
            }
        };
        self.read.update(|read| read.saturating_add(text.len() as u64));
        Ok(text)
    }
}

impl MessageStore {
    /// Calls `look` for messages in the given order, until it breaks, and returns its results. Removed
    /// messages are skipped. A long operation must set `is_long` to run on a blocking thread.
    ///
    /// # Errors
    /// The first error of `look`.
    pub(crate) async fn inspect<T, F>(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        is_long: bool,
        mut look: F,
    ) -> Result<Vec<T>, MessageStoreError>
    where
        F: FnMut(&Inspected<'_>) -> Result<ControlFlow<T, T>, MessageStoreError> + Send + 'static,
        T: Send + 'static,
    {
        let job = move |connection: &Connection| {
            let mut made = Vec::new();
            for uid in uids {
                let Some(meta) = entry::find(connection, folder, uid)? else { continue };
                match look(&Inspected::new(connection, meta))? {
                    ControlFlow::Continue(one) => made.push(one),
                    ControlFlow::Break(last) => {
                        made.push(last);
                        break;
                    }
                }
            }
            Ok(made)
        };
        if is_long { self.scan(job).await } else { self.read(job).await }
    }

    /// Returns what `keep` makes of the messages, by ascending UID. Other searches run between the steps.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`], or the first error of `keep`.
    pub(crate) async fn collect<T, F>(&self, folder: FolderId, mut keep: F) -> Result<Vec<T>, MessageStoreError>
    where
        F: FnMut(&Inspected<'_>) -> Result<Option<T>, MessageStoreError> + Send + 'static,
        T: Send + 'static,
    {
        let mut steps = self.search_in(self.folder_now(folder).await?.mailbox);
        let (mut kept, mut after) = (Vec::new(), Some(0));
        while let Some(uid) = after {
            let step = move |connection: &Connection| {
                let step = collect_step(connection, folder, uid, &mut keep)?;
                Ok((step, keep))
            };
            let ((found, next), keep_on) = steps.step(step).await?;
            (keep, after) = (keep_on, next);
            kept.extend(found);
        }
        Ok(kept)
    }
}

/// Runs one step above `uid`. Returns what `keep` returns, and the last UID unless it was the folder's last.
fn collect_step<T>(
    connection: &Connection,
    folder: FolderId,
    uid: u32,
    mut keep: impl FnMut(&Inspected<'_>) -> Result<Option<T>, MessageStoreError>,
) -> Result<(Vec<T>, Option<u32>), MessageStoreError> {
    let (mut kept, mut next, mut share) = (Vec::new(), None, Share::default());
    entry::for_each_above(connection, folder, uid, |meta| {
        let message = Inspected::new(connection, meta);
        let uid = message.meta.state.uid;
        kept.extend(keep(&message)?);
        if share.takes(message.read.get()) {
            return Ok(ControlFlow::Continue(()));
        }
        next = Some(uid);
        Ok(ControlFlow::Break(()))
    })?;
    Ok((kept, next))
}
