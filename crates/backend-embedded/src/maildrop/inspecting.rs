//! Looking at the messages of a folder one after the other, as IMAP does: of each only that is read which is asked for.

use std::ops::{ControlFlow, Range};

use mailapi_backend::mime::Digest;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::FolderId;
use super::{EntryMeta, Layout, Maildrop, MaildropError, content, entry, index, pieces};

/// A message that is being looked at.
pub(crate) struct Inspected<'c> {
    connection: &'c Connection,
    meta: EntryMeta,
}

impl Inspected<'_> {
    /// What its row holds.
    pub(crate) const fn meta(&self) -> &EntryMeta {
        &self.meta
    }

    /// Where its octets lie.
    pub(crate) fn layout(&self) -> Result<Layout, MaildropError> {
        content::layout(self.connection, self.meta.content)
    }

    /// How many octets its header block has, our `Return-Path` line included.
    pub(crate) fn header_len(&self, layout: &Layout) -> Result<u64, MaildropError> {
        Ok(layout.return_path_len + content::digest(self.connection, self.meta.content)?.header_len)
    }

    /// Its header block.
    pub(crate) fn header(&self) -> Result<Vec<u8>, MaildropError> {
        let layout = self.layout()?;
        self.octets(&layout, 0..self.header_len(&layout)?)
    }

    /// Some of its octets.
    pub(crate) fn octets(&self, layout: &Layout, range: Range<u64>) -> Result<Vec<u8>, MaildropError> {
        pieces::read_range(self.connection, layout, range)
    }

    /// The digest that was stored when the message arrived.
    pub(crate) fn digest(&self) -> Result<Digest, MaildropError> {
        content::digest(self.connection, self.meta.content)
    }

    /// The whole message as received, without our `Return-Path` line.
    pub(crate) fn received(&self) -> Result<Vec<u8>, MaildropError> {
        let layout = self.layout()?;
        self.octets(&layout, layout.return_path_len..layout.whole().end)
    }

    /// What a search looks into (`SearchableText::joined`): subject, from, to, cc and body, each on a line.
    pub(crate) fn searchable(&self) -> Result<String, MaildropError> {
        let sql = "SELECT text FROM drop_texts WHERE message_id = ?1";
        let kept = self.connection.prepare_cached(sql)?.query_row(params![self.meta.content], |row| row.get(0));
        kept.optional()?.map_or_else(|| index::text_of(self.connection, self.meta.content), Ok)
    }
}

impl Maildrop {
    /// Looks at messages in the given order, until `look` breaks; answers what it made of each. Those that are gone are
    /// left out. What takes longer than a moment `is_long`, and runs on a thread that may block.
    ///
    /// # Errors
    /// The first of `look`.
    pub(crate) async fn inspect<T, F>(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        is_long: bool,
        mut look: F,
    ) -> Result<Vec<T>, MaildropError>
    where
        F: FnMut(&Inspected<'_>) -> Result<ControlFlow<T, T>, MaildropError> + Send + 'static,
        T: Send + 'static,
    {
        let job = move |connection: &Connection| {
            let mut made = Vec::new();
            for uid in uids {
                let Some(meta) = entry::find(connection, folder, uid)? else { continue };
                match look(&Inspected { connection, meta })? {
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

    /// The UIDs of those messages of a folder that `keep` wants, ascending.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchFolder`]; the first of `keep`.
    pub(crate) async fn filter<F>(&self, folder: FolderId, mut keep: F) -> Result<Vec<u32>, MaildropError>
    where
        F: FnMut(&Inspected<'_>) -> Result<bool, MaildropError> + Send + 'static,
    {
        let mailbox = self.folder_now(folder).await?.mailbox;
        self.search_in(mailbox, move |connection| {
            let mut kept = Vec::new();
            entry::for_each(connection, folder, |meta| {
                let message = Inspected { connection, meta };
                if keep(&message)? {
                    kept.push(message.meta.state.uid);
                }
                Ok(())
            })?;
            Ok(kept)
        })
        .await
    }
}
