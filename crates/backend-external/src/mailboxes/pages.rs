//! A cache of whole pages, each with the folder state that it shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_backend::{MessageSummary, Validator};
use mailapi_model::{Listed, Page};
use moka::sync::Cache;

use super::summaries::{FolderKey, weight};
use crate::imap_pool::FolderState;

/// The key of a page: folder, limit and offset.
type PageKey = (Arc<FolderKey>, u32, u64);

/// A page and its validator; `None` if a change could not be detected.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) listed: Arc<Listed<MessageSummary>>,
    pub(super) validator: Option<Validator>,
}

/// A cached page.
#[derive(Clone)]
struct Remembered {
    state: FolderState,
    shown: Shown,
}

/// The cache of pages.
pub(super) struct Pages {
    by_place: Cache<PageKey, Remembered>,
    /// The number of pages stored so far. It serves as the validator of the next page, so each validator is unique.
    marks: AtomicU64,
}

impl Shown {
    /// Wraps a page that is not cached.
    pub(super) const fn once(listed: Arc<Listed<MessageSummary>>) -> Self {
        Self { listed, validator: None }
    }
}

/// Returns the approximate memory of a page, including its key. Almost every page has its own folder key.
fn page_weight((folder, ..): &PageKey, page: &Remembered) -> u32 {
    let fixed = size_of::<PageKey>() + size_of::<Remembered>() + size_of::<FolderKey>();
    let names = folder.mailbox.as_str().len() + folder.folder.as_str().len();
    let place = u32::try_from(fixed + names).unwrap_or(u32::MAX);
    page.shown.listed.items.iter().map(weight).fold(place, u32::saturating_add)
}

impl Pages {
    /// Creates a cache of at most `max_bytes`; with 0 it stores nothing.
    pub(super) fn new(max_bytes: u64) -> Self {
        let by_place = Cache::builder().max_capacity(max_bytes).weigher(page_weight).build();
        Self { by_place, marks: AtomicU64::new(0) }
    }

    /// Returns the cached page if the folder state is still the same.
    pub(super) fn get(&self, folder: &Arc<FolderKey>, page: Page, state: &FolderState) -> Option<Shown> {
        let remembered = self.by_place.get(&(folder.clone(), page.limit(), page.offset()))?;
        (remembered.state == *state).then_some(remembered.shown)
    }

    /// Caches a page for as long as the folder state remains the same.
    pub(super) fn put(
        &self,
        folder: &Arc<FolderKey>,
        page: Page,
        state: FolderState,
        listed: Arc<Listed<MessageSummary>>,
    ) -> Shown {
        let number = self.marks.fetch_add(1, Ordering::Relaxed);
        let shown = Shown { listed, validator: Some(Validator::new([number, 0])) };
        let remembered = Remembered { state, shown: shown.clone() };
        self.by_place.insert((folder.clone(), page.limit(), page.offset()), remembered);
        shown
    }
}
