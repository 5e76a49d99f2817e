//! The exact sizes of attachments after decoding. IMAP only reports encoded sizes.

use std::sync::Arc;

use mailapi_backend::FullMessage;
use mailapi_backend::mime::{DescribedAttachment, TransferDecoder, TransferEncoding};
use mailapi_imap::client::{Command, Event, FetchAttribute, Section, SectionText, Untagged};
use mailapi_model::{EmailAddress, FolderName};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::load::fetch_one;
use super::parts::Parts;
use super::settings::MailboxSettings;
use super::summaries::FolderKey;
use crate::imap_pool::{ImapConnection, ImapError};

/// A cache of parts and attachment sizes by message.
#[derive(Clone)]
pub(super) struct ExactSizes(Arc<Cache<(FolderKey, u32), Arc<Measured>, Memory>>);

/// The approximate memory of an entry.
#[derive(Clone)]
struct Memory;

impl Weighter<(FolderKey, u32), Arc<Measured>> for Memory {
    fn weight(&self, _: &(FolderKey, u32), measured: &Arc<Measured>) -> u64 {
        measured.weight()
    }
}

/// The usual memory of an entry.
const USUAL_ENTRY: u64 = 1024;

/// The parts of a message and the sizes of its attachments. Neither ever changes.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) parts: Arc<Parts>,
    pub(super) sizes: Vec<u64>,
}

impl Measured {
    /// Returns the message with the exact sizes of its attachments.
    pub(super) fn apply_to(&self, mut message: FullMessage) -> FullMessage {
        for (attachment, &size) in message.attachments.iter_mut().zip(&self.sizes) {
            attachment.size = size;
        }
        message
    }

    /// Returns the approximate memory of the entry, including its key.
    fn weight(&self) -> u64 {
        const FIXED: usize = 256;
        (FIXED + self.parts.bytes() + self.sizes.len() * size_of::<u64>()) as u64
    }
}

/// The key of a message.
#[derive(Debug, Clone)]
pub(super) struct MessageKey {
    folder: FolderKey,
    uid: u32,
}

impl MessageKey {
    pub(super) fn new(mailbox: &EmailAddress, folder: &FolderName, uid_validity: u32, uid: u32) -> Self {
        Self { folder: FolderKey { mailbox: mailbox.clone(), folder: folder.clone(), uid_validity }, uid }
    }
}

impl ExactSizes {
    /// Creates a cache of at most `max_bytes`; with 0 it stores nothing.
    pub(super) fn new(max_bytes: u64) -> Self {
        let entries = usize::try_from(max_bytes / USUAL_ENTRY).unwrap_or(usize::MAX);
        Self(Arc::new(Cache::with_weighter(entries, max_bytes, Memory)))
    }

    pub(super) fn get(&self, key: &MessageKey) -> Option<Arc<Measured>> {
        self.0.get(&(key.folder.clone(), key.uid))
    }

    /// Corrects the size of an attachment after it was decoded completely.
    pub(super) fn correct(&self, key: &MessageKey, index: usize, size: u64) {
        let Some(measured) = self.get(key) else { return };
        let mut measured = Measured::clone(&measured);
        if let Some(known) = measured.sizes.get_mut(index) {
            *known = size;
        }
        self.0.insert((key.folder.clone(), key.uid), Arc::new(measured));
    }

    /// Returns the sizes of all attachments of a message in the open folder.
    pub(super) async fn of(
        &self,
        connection: &mut ImapConnection,
        key: &MessageKey,
        parts: &Arc<Parts>,
        settings: &MailboxSettings,
    ) -> Result<Arc<Measured>, ImapError> {
        let attachments = &parts.chosen.attachments;
        if let Some(measured) = self.get(key).filter(|measured| measured.sizes.len() == attachments.len()) {
            return Ok(measured);
        }
        let mut sizes = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            let path = parts.path(attachment.part);
            sizes.push(match from_samples(connection, key.uid, path, attachment, settings).await? {
                Some(size) => size,
                None => by_counting(connection, key.uid, path, attachment.encoding).await?,
            });
        }
        let measured = Arc::new(Measured { parts: parts.clone(), sizes });
        self.0.insert((key.folder.clone(), key.uid), measured.clone());
        Ok(measured)
    }
}

/// Returns the size of an attachment if it is short, or if both ends of its base64 have lines of equal length.
async fn from_samples(
    connection: &mut ImapConnection,
    uid: u32,
    path: &[u32],
    attachment: &DescribedAttachment,
    settings: &MailboxSettings,
) -> Result<Option<u64>, ImapError> {
    let (bytes, sample) = (attachment.info.size, u64::from(settings.sample_bytes));
    if attachment.encoding == TransferEncoding::Identity {
        return Ok(Some(bytes));
    }
    let slice = |from| FetchAttribute::SectionSlice(Section::part(path), from, settings.sample_bytes);
    let tail_at = bytes.saturating_sub(sample);
    if tail_at <= sample {
        let whole = FetchAttribute::SectionSlice(Section::part(path), 0, settings.sample_bytes.saturating_mul(2));
        let found = fetch_one(connection, uid, &[whole]).await?;
        return Ok(found.slice(path, 0).map(|encoded| decoded_size(attachment.encoding, encoded)));
    }
    if attachment.encoding != TransferEncoding::Base64 {
        return Ok(None);
    }
    let found = fetch_one(connection, uid, &[slice(0), slice(tail_at)]).await?;
    let ends = found.slice(path, 0).zip(found.slice(path, tail_at));
    Ok(ends.and_then(|(head, tail)| regular_base64_size(head, tail, tail_at, bytes)))
}

/// Returns the decoded size of base64 if both ends are consistent with lines of equal length.
fn regular_base64_size(head: &[u8], tail: &[u8], tail_at: u64, bytes: u64) -> Option<u64> {
    const LINE_END: &[u8] = b"\r\n";
    let line = head.iter().position(|&byte| byte == b'\r')?;
    let stride = (line + LINE_END.len()) as u64;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let fits = |byte: u8, at: u64| {
        match (at % stride).checked_sub(line as u64) {
            None => is_digit(byte),
            Some(within) => LINE_END.get(usize::try_from(within).ok()?) == Some(&byte),
        }
        .then_some(())
    };
    // Padding and line ends may follow the digits.
    let end = tail.iter().rposition(|&byte| is_digit(byte))? + 1;
    if line % 4 != 0 || !tail[end..].iter().all(|byte| b"=\r\n".contains(byte)) || tail_at + tail.len() as u64 != bytes
    {
        return None;
    }
    head.iter().zip(0..).try_for_each(|(&byte, at)| fits(byte, at))?;
    tail[..end].iter().zip(tail_at..).try_for_each(|(&byte, at)| fits(byte, at))?;
    let last = tail_at + end as u64;
    let digits = last / stride * line as u64 + last % stride;
    // Four digits encode three bytes; a padded group counts in proportion.
    Some(digits * 3 / 4)
}

fn decoded_size(encoding: TransferEncoding, encoded: &[u8]) -> u64 {
    let mut count = Count::new(encoding);
    count.push(encoded);
    count.finish()
}

/// Decodes a part in order to count its bytes.
async fn by_counting(
    connection: &mut ImapConnection,
    uid: u32,
    path: &[u32],
    encoding: TransferEncoding,
) -> Result<u64, ImapError> {
    let command = Command::uid_fetch(&[uid], &[FetchAttribute::Section(Section::part(path))]).streaming();
    connection.start(command)?;
    let (mut count, mut has_come) = (Count::new(encoding), false);
    loop {
        match connection.event().await? {
            Event::BodyBegin(_) if has_come => return Err(ImapError::unavailable("the server sent a part twice")),
            Event::BodyBegin(_) => has_come = true,
            Event::BodyPiece(_) => count.push(connection.body_piece()),
            // Short parts may arrive without a literal.
            Event::Untagged(Untagged::Fetch(message)) if message.uid == Some(uid) && !has_come => {
                if let Some(bytes) = message.section(path, &SectionText::All) {
                    count.push(bytes);
                    has_come = true;
                }
            }
            Event::Done(status) if status.is_ok() && has_come => return Ok(count.finish()),
            Event::Done(status) if status.is_ok() => {
                return Err(ImapError::unavailable("the server sent no body of a part"));
            }
            Event::Done(status) => return Err(ImapError::Refused(status)),
            _ => {}
        }
    }
}

struct Count {
    decoder: TransferDecoder,
    scratch: Vec<u8>,
    bytes: u64,
}

impl Count {
    fn new(encoding: TransferEncoding) -> Self {
        Self { decoder: TransferDecoder::new(encoding), scratch: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, encoded: &[u8]) {
        self.decoder.push(encoded, &mut self.scratch);
        self.bytes += self.scratch.len() as u64;
        self.scratch.clear();
    }

    fn finish(mut self) -> u64 {
        self.decoder.finish(&mut self.scratch);
        self.bytes + self.scratch.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use mailapi_backend::AttachmentInfo;
    use mailapi_backend::mime::decode;
    use mailapi_imap::client::BodyStructure;
    use proptest::prelude::*;

    use super::*;

    fn from_ends(encoded: &[u8], sample: usize) -> Option<u64> {
        let tail_at = encoded.len() - sample;
        regular_base64_size(&encoded[..sample], &encoded[tail_at..], tail_at as u64, encoded.len() as u64)
    }

    #[test]
    fn messages_of_many_parts_count_for_what_they_take() {
        let part = |name: &str| {
            let (filename, content_type, type_parameters) = (name.to_owned(), "image/png".to_owned(), String::new());
            let info = AttachmentInfo { index: 0, filename, content_type, type_parameters, size: 0, content_id: None };
            DescribedAttachment { part: 1, encoding: TransferEncoding::Base64, info }
        };
        let measured = |names: &[&str]| {
            let mut parts = Parts::of(BodyStructure::Opaque);
            parts.chosen.attachments = names.iter().map(|name| part(name)).collect();
            Measured { parts: Arc::new(parts), sizes: vec![0; names.len()] }
        };
        let (one, two) = (measured(&["a"]).weight(), measured(&["a", "a"]).weight());
        assert!(two > one);
        let long = "a".repeat(1_001);
        assert_eq!(measured(&[long.as_str()]).weight(), one + 1_000);
    }

    fn lines(digits: &str, length: usize) -> Vec<u8> {
        digits.as_bytes().chunks(length).map(|line| [line, b"\r\n"].concat()).collect::<Vec<_>>().concat()
    }

    #[test]
    fn irregular_base64_is_not_guessed_at() {
        let regular = lines(&"QUJD".repeat(100), 76);
        assert_eq!(from_ends(&regular, 100), Some(300));
        for (from, to) in [("QUJD", "QU D"), ("QUJD\r\n", "QUJD \r\n"), ("QUJD\r\n", "QUJDQUJD\r\n"), ("QUJD", "QQ==")]
        {
            let text = String::from_utf8(regular.clone()).unwrap().replacen(from, to, 1);
            assert_eq!(from_ends(text.as_bytes(), 100), None, "{to:?}");
        }
        assert_eq!(from_ends(&lines(&"QUJD".repeat(100), 75), 100), None);
        assert_eq!(from_ends("QUJD".repeat(100).as_bytes(), 100), None);
        let two = [lines(&"QUJD".repeat(70), 76), b"QQ==\r\n".to_vec(), lines(&"QUJD".repeat(70), 76)].concat();
        assert_eq!(from_ends(&two, 100), None);
    }

    proptest! {
        #[test]
        fn a_guess_is_never_wrong_on_what_encoders_write(
            bytes in 150usize..1000, groups in 1usize..20, sample in 80usize..120, end in "(\r\n){0,2}",
        ) {
            let digits = bytes / 3 * 4;
            let last = ["", "QQ==", "QUI="][bytes % 3];
            let mut encoded = lines(&format!("{}{last}", "A".repeat(digits)), groups * 4);
            encoded.truncate(encoded.len() - 2);
            encoded.extend(end.bytes());
            let decoded = decode(TransferEncoding::Base64, &encoded).len() as u64;
            prop_assert_eq!(decoded, bytes as u64);
            if let Some(size) = from_ends(&encoded, sample.min(encoded.len())) {
                prop_assert_eq!(size, decoded);
            }
        }

        #[test]
        fn any_bytes_are_looked_at(head in prop::collection::vec(any::<u8>(), 0..60), tail in prop::collection::vec(any::<u8>(), 0..60), at in 0u64..100) {
            let _ = regular_base64_size(&head, &tail, at, at + tail.len() as u64);
        }
    }
}
