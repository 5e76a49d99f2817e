//! Reads messages for FETCH: only the parts that its items need, and no body just to send it.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use jiff::Timestamp;
use mailapi_imap::Flags;
use mailapi_imap::server::command::{FetchItem, SectionItem, SectionText};
use mailapi_imap::server::mime::{BodyStructure, Envelope, PartRange};
use mailapi_imap::server::{Binary, MessageSource, ObjectId};

use super::ImapSettings;
use super::order_facts::timestamp;
use super::structure::{DecodedPart, Structure, WantedParts, envelope};
use crate::MessageStore;
use crate::message_store::{EntryMeta, EntryState, FolderId, Inspected, Layout, MessageStoreError};

/// How much of a message is read; each level includes the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    /// Its row.
    Row,
    /// The location of its bytes.
    Layout,
    /// The length of its header.
    HeaderLength,
    /// Its header.
    Header,
    /// The whole message, to derive its structure.
    Structure,
}

/// The needs of a FETCH's items, and the limits of one step.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    depth: Depth,
    envelope: bool,
    preview: bool,
    parts: WantedParts,
    max_messages: usize,
    max_bytes: usize,
}

/// Result of one step of a FETCH.
pub(super) struct Step {
    /// The existing messages.
    pub(super) messages: Vec<Fetched>,
    /// Number of UIDs processed, from the first one.
    pub(super) consumed: usize,
}

impl Plan {
    pub(super) fn new(items: &[FetchItem], settings: &ImapSettings) -> Self {
        Self {
            depth: items.iter().map(depth).max().unwrap_or(Depth::Row),
            envelope: items.contains(&FetchItem::Envelope),
            preview: items.contains(&FetchItem::Preview),
            parts: WantedParts {
                headers: items.iter().filter_map(picked_header).collect(),
                decoded: items.iter().filter_map(FetchItem::decoded_part).map(<[u32]>::to_vec).collect(),
            },
            max_messages: settings.fetch_messages.max(1),
            max_bytes: settings.fetch_bytes,
        }
    }

    /// Reads the next messages of the ascending UIDs.
    pub(super) async fn step(
        &self,
        message_store: &MessageStore,
        folder: FolderId,
        uids: &[u32],
    ) -> Result<Step, MessageStoreError> {
        let mut next = uids[..uids.len().min(self.max_messages)].to_vec();
        let last = next.last().copied();
        let mut is_long = false;
        if self.depth >= Depth::Header {
            (next, is_long) = self.next_few(&message_store.fetch_meta(folder, next).await?);
        }
        let last = next.last().copied().or(last);
        let messages = self.read(message_store, folder, next, is_long).await?;
        // If all messages of the step were removed, all its UIDs are processed.
        let through = messages.last().map(MessageSource::uid).or(last);
        let consumed = through.map_or(uids.len(), |through| uids.partition_point(|uid| *uid <= through));
        Ok(Step { messages, consumed })
    }

    /// Returns the UIDs for one step, at least one, and whether reading takes long.
    fn next_few(&self, messages: &[EntryMeta]) -> (Vec<u32>, bool) {
        let max = self.max_bytes as u64;
        if let Some(first) = messages.first().filter(|first| first.size > max) {
            return (vec![first.state.uid], true);
        }
        let mut bytes = 0_u64;
        let fits = |message: &&EntryMeta| {
            // Only whole messages count. One above the limit is read alone in any case: its header may be all of it.
            bytes = bytes.saturating_add(if self.depth == Depth::Structure { message.size } else { 0 });
            message.size <= max && bytes <= max
        };
        (messages.iter().take_while(fits).map(|message| message.state.uid).collect(), false)
    }

    async fn read(
        &self,
        message_store: &MessageStore,
        folder: FolderId,
        uids: Vec<u32>,
        is_long: bool,
    ) -> Result<Vec<Fetched>, MessageStoreError> {
        let plan = self.clone();
        let mut bytes = 0_u64;
        let look = move |message: &Inspected<'_>| {
            let fetched = Fetched::read(message, &plan)?;
            bytes += message.bytes_read();
            Ok(if bytes < plan.max_bytes as u64 { ControlFlow::Continue(fetched) } else { ControlFlow::Break(fetched) })
        };
        message_store.inspect(folder, uids, is_long, look).await
    }
}

fn depth(item: &FetchItem) -> Depth {
    match item {
        FetchItem::Flags
        | FetchItem::Uid
        | FetchItem::Modseq
        | FetchItem::InternalDate
        | FetchItem::SaveDate
        | FetchItem::Size
        | FetchItem::EmailId
        | FetchItem::ThreadId => Depth::Row,
        FetchItem::Envelope => Depth::Header,
        FetchItem::Preview => Depth::Layout,
        FetchItem::Body | FetchItem::BodyStructure | FetchItem::Binary(_) | FetchItem::BinarySize(_) => {
            Depth::Structure
        }
        FetchItem::Section(SectionItem { section, .. }) if !section.path.is_empty() => Depth::Structure,
        FetchItem::Section(SectionItem { section, .. }) => match section.text {
            SectionText::All => Depth::Layout,
            SectionText::Header | SectionText::Text | SectionText::Mime => Depth::HeaderLength,
            SectionText::HeaderFields { .. } => Depth::Header,
        },
    }
}

fn picked_header(item: &FetchItem) -> Option<Vec<u32>> {
    let FetchItem::Section(SectionItem { section, .. }) = item else { return None };
    let is_picked = matches!(section.text, SectionText::HeaderFields { .. }) && !section.path.is_empty();
    is_picked.then(|| section.path.clone())
}

/// A message as far as it was read.
pub(super) struct Fetched {
    meta: EntryMeta,
    layout: Option<Layout>,
    header_len: u64,
    header: Vec<u8>,
    envelope: Envelope,
    preview: String,
    structure: Option<Structure>,
}

impl Fetched {
    fn read(message: &Inspected<'_>, plan: &Plan) -> Result<Self, MessageStoreError> {
        let mut fetched = Self {
            meta: message.meta().clone(),
            layout: None,
            header_len: 0,
            header: Vec::new(),
            envelope: Envelope::default(),
            preview: String::new(),
            structure: None,
        };
        if plan.depth == Depth::Row {
            return Ok(fetched);
        }
        let layout = message.layout()?;
        if plan.depth >= Depth::HeaderLength {
            fetched.header_len = message.header_len(&layout)?;
        }
        if plan.depth == Depth::Header {
            fetched.header = message.bytes(&layout, 0..fetched.header_len)?;
        }
        if plan.depth == Depth::Structure {
            let whole = message.bytes(&layout, layout.whole())?;
            let return_path_len = usize::try_from(layout.return_path_len).unwrap_or(usize::MAX);
            fetched.structure = Some(Structure::of(&whole, return_path_len, &plan.parts));
            let header_len = usize::try_from(fetched.header_len).unwrap_or(usize::MAX).min(whole.len());
            fetched.header = whole[..header_len].to_vec();
        }
        if plan.envelope {
            fetched.envelope = envelope(&fetched.header);
        }
        if plan.preview {
            fetched.preview = message.preview()?;
        }
        fetched.layout = Some(layout);
        Ok(fetched)
    }

    /// Replaces the flags with a newer state.
    pub(super) fn set_state(&mut self, state: EntryState) {
        self.meta.state = state;
    }

    /// Returns the location of the bytes; `None` if no item needs them.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.layout.clone()
    }

    /// Returns a part to decode.
    pub(super) fn decoded_part(&self, path: &[u32]) -> Option<DecodedPart> {
        self.structure.as_ref()?.decoded(path)?
    }
}

impl MessageSource for Fetched {
    fn uid(&self) -> u32 {
        self.meta.state.uid
    }

    fn flags(&self) -> &Flags {
        &self.meta.state.flags
    }

    fn modseq(&self) -> u64 {
        self.meta.state.modseq
    }

    fn internal_date(&self) -> Timestamp {
        timestamp(self.meta.internal_date)
    }

    fn save_date(&self) -> Timestamp {
        timestamp(self.meta.saved_at)
    }

    fn size(&self) -> u64 {
        self.meta.size
    }

    fn envelope(&self) -> Envelope {
        self.envelope.clone()
    }

    fn body_structure(&self) -> BodyStructure {
        let nothing = || Structure::of(&[], 0, &WantedParts::default()).body().clone();
        self.structure.as_ref().map_or_else(nothing, |structure| structure.body().clone())
    }

    fn email_id(&self) -> ObjectId {
        ObjectId::email(self.meta.content.object_id())
    }

    fn preview(&self) -> String {
        self.preview.clone()
    }

    /// Called only for selected header fields; everything else has a span.
    fn section(&self, path: &[u32], _range: PartRange) -> Option<Cow<'_, [u8]>> {
        let header = match path {
            [] => Some(self.header.as_slice()),
            path => self.structure.as_ref().and_then(|structure| structure.header(path)),
        };
        header.map(Cow::Borrowed)
    }

    fn section_span(&self, path: &[u32], range: PartRange) -> Option<Range<u64>> {
        match (path, range) {
            ([], PartRange::All) => Some(0..self.meta.size),
            ([], PartRange::Header) => Some(0..self.header_len),
            ([], PartRange::Text) => Some(self.header_len..self.meta.size),
            ([], PartRange::Mime) => None,
            (path, range) => self.structure.as_ref().and_then(|structure| structure.locate(path, range)),
        }
    }

    fn binary(&self, path: &[u32]) -> Binary<'_> {
        match self.structure.as_ref().and_then(|structure| structure.decoded(path)) {
            None => Binary::Missing,
            Some(None) => Binary::UnknownEncoding,
            Some(Some(DecodedPart { length, has_nul, .. })) => Binary::Span { length, has_nul },
        }
    }
}
