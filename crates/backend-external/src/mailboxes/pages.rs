//! Whole pages that were shown, each with how its folder looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_backend::{MessageSummary, Validator};
use mailapi_model::{Listed, Page};
use moka::sync::Cache;

use super::summaries::{FolderKey, weight};
use crate::imap_pool::FolderState;

/// A page of a folder, by how many messages it shows at most and how many it leaves out.
type PageKey = (Arc<FolderKey>, u32, u64);

/// A page, and what tells it from others; none when nobody could tell whether it has changed.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) listed: Arc<Listed<MessageSummary>>,
    pub(super) validator: Option<Validator>,
}

/// A page that is remembered.
#[derive(Clone)]
struct Remembered {
    state: FolderState,
    shown: Shown,
}

/// The memory of pages.
pub(super) struct Pages {
    by_place: Cache<PageKey, Remembered>,
    /// How many were remembered so far: the number of each is its mark, and no other page ever gets it.
    marks: AtomicU64,
}

impl Shown {
    /// A page that is not remembered.
    pub(super) const fn once(listed: Arc<Listed<MessageSummary>>) -> Self {
        Self { listed, validator: None }
    }
}

/// About how much memory a page takes with its place. Nearly every page has a folder's key of its own.
fn page_weight((folder, ..): &PageKey, page: &Remembered) -> u32 {
    let fixed = size_of::<PageKey>() + size_of::<Remembered>() + size_of::<FolderKey>();
    let names = folder.mailbox.as_str().len() + folder.folder.as_str().len();
    let place = u32::try_from(fixed + names).unwrap_or(u32::MAX);
    page.shown.listed.items.iter().map(weight).fold(place, u32::saturating_add)
}

impl Pages {
    /// Remembers nothing when that is all the memory it may take.
    pub(super) fn new(max_bytes: u64) -> Self {
        let by_place = Cache::builder().max_capacity(max_bytes).weigher(page_weight).build();
        Self { by_place, marks: AtomicU64::new(0) }
    }

    /// The page, when the folder still looks as it did when the page was shown.
    pub(super) fn get(&self, folder: &Arc<FolderKey>, page: Page, state: &FolderState) -> Option<Shown> {
        let remembered = self.by_place.get(&(folder.clone(), page.limit(), page.offset()))?;
        (remembered.state == *state).then_some(remembered.shown)
    }

    /// Remembers a page for as long as its folder looks like this.
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
