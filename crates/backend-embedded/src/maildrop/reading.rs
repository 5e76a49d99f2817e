//! Opening a message: only those of its octets are read that are shown.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use mailapi_backend::mime::{BodyPart, PartSpan, TransferDecoder};
use mailapi_backend::{FullMessage, OpenedAttachment, OpenedMessage};
use mailapi_model::{EmailAddress, FolderName};
use rusqlite::Connection;

use super::{Layout, Maildrop, MaildropError, content, folder, listing, mailbox, octets};

/// One message, decoded.
pub(crate) fn full_message(
    connection: &Connection,
    address: &EmailAddress,
    name: &FolderName,
    uid: u32,
) -> Result<FullMessage, MaildropError> {
    let mailbox = mailbox::expect(connection, address)?;
    let folder = folder::expect(connection, mailbox.id, name)?;
    let summary = listing::summary(connection, folder.id, uid)?.ok_or(MaildropError::NoSuchMessage)?;
    let content = octets::locate(connection, address, name, uid)?.content;
    let layout = content::layout(connection, content)?;
    let digest = content::digest(connection, content)?;
    let header = content::read_range(connection, &layout, 0..layout.return_path_len + digest.header_len)?;
    let body = |body: Option<&BodyPart>| match body {
        Some(body) => content::read_range(connection, &layout, range(&layout, &body.span)),
        None => Ok(Vec::new()),
    };
    let (text, html) = (body(digest.text.as_ref())?, body(digest.html.as_ref())?);
    Ok(digest.full_message(summary, &header, &text, &html))
}

/// Where a part stands in the octets as stored.
fn range(layout: &Layout, span: &PartSpan) -> std::ops::Range<u64> {
    let start = layout.return_path_len.saturating_add(span.offset);
    start..start.saturating_add(span.length)
}

impl Maildrop {
    /// One attachment, decoded piece by piece.
    pub(crate) async fn attachment(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MaildropError> {
        let (layout, part) = self
            .read(|connection| {
                let content = octets::locate(connection, address, name, uid)?.content;
                let attachments = content::digest(connection, content)?.attachments;
                let part = attachments.into_iter().nth(index as usize).ok_or(MaildropError::NoSuchAttachment)?;
                Ok::<_, MaildropError>((content::layout(connection, content)?, part))
            })
            .await?;
        let encoded = self.stream_range(layout, range(&layout, &part.span));
        let content = decoded(encoded, part.span.decoder()).map(|piece| piece.map_err(Into::into));
        Ok(OpenedAttachment { info: part.info, content: content.boxed() })
    }

    /// One message as it is stored, piece by piece.
    pub(crate) async fn raw(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MaildropError> {
        let layout = self
            .read(|connection| {
                let content = octets::locate(connection, address, name, uid)?.content;
                content::layout(connection, content)
            })
            .await?;
        let content = self.stream_range(layout, layout.whole()).map(|piece| piece.map_err(Into::into));
        Ok(OpenedMessage { size: layout.size, content: content.boxed() })
    }
}

fn decoded(
    encoded: impl Stream<Item = Result<Bytes, MaildropError>> + Send,
    decoder: TransferDecoder,
) -> impl Stream<Item = Result<Bytes, MaildropError>> + Send {
    let state = (Box::pin(encoded), Some(decoder));
    stream::try_unfold(state, |(mut encoded, decoder)| async move {
        let Some(mut decoder) = decoder else { return Ok(None) };
        let mut octets = Vec::new();
        let rest = match encoded.next().await {
            Some(piece) => {
                decoder.push(&piece?, &mut octets);
                Some(decoder)
            }
            None => {
                decoder.finish(&mut octets);
                None
            }
        };
        Ok(Some((Bytes::from(octets), (encoded, rest))))
    })
    .filter(|piece| std::future::ready(!matches!(piece, Ok(octets) if octets.is_empty())))
}
