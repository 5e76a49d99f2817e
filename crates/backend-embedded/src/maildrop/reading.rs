//! Opening a message: only those of its octets are read that are shown.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use mailapi_backend::mime::{BodyPart, PartSpan, TransferDecoder};
use mailapi_backend::{FullMessage, OpenedAttachment, OpenedMessage};
use mailapi_model::{EmailAddress, FolderName};
use rusqlite::Connection;

use super::{Layout, Maildrop, MaildropError, content, folder, listing, mailbox, octets};

/// One message, decoded; none when more than `most` octets would have to be read for it.
fn full_message(
    connection: &Connection,
    address: &EmailAddress,
    name: &FolderName,
    uid: u32,
    most: u64,
) -> Result<Option<FullMessage>, MaildropError> {
    let mailbox = mailbox::expect(connection, address)?;
    let folder = folder::expect(connection, mailbox.id, name)?;
    let summary = listing::summary(connection, folder.id, uid)?.ok_or(MaildropError::NoSuchMessage)?;
    let content = octets::locate(connection, address, name, uid)?.content;
    let layout = content::layout(connection, content)?;
    let digest = content::digest(connection, content)?;
    let header = 0..layout.return_path_len + digest.header_len;
    let body = |body: Option<&BodyPart>| body.map_or(0..0, |body| range(&layout, &body.span));
    let parts = [header, body(digest.text.as_ref()), body(digest.html.as_ref())];
    if parts.iter().map(|part| part.end - part.start).sum::<u64>() > most {
        return Ok(None);
    }
    let [header, text, html] = parts.map(|part| content::read_range(connection, &layout, part));
    Ok(Some(digest.full_message(summary, &header?, &text?, &html?)))
}

/// Where a part stands in the octets as stored.
fn range(layout: &Layout, span: &PartSpan) -> std::ops::Range<u64> {
    let start = layout.return_path_len.saturating_add(span.offset);
    start..start.saturating_add(span.length)
}

impl Maildrop {
    /// One message, decoded.
    pub(crate) async fn full_message(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        uid: u32,
    ) -> Result<FullMessage, MaildropError> {
        let most = self.settings().inline_bytes as u64;
        let short = self.read(|connection| full_message(connection, address, name, uid, most)).await?;
        if let Some(message) = short {
            return Ok(message);
        }
        let (address, name) = (address.clone(), name.clone());
        let long = self.scan(move |connection| full_message(connection, &address, &name, uid, u64::MAX)).await?;
        long.ok_or(MaildropError::NoSuchMessage)
    }

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
