//! Caches pages of folders as they were written, so that unchanged pages are not read and written again.
//!
//! A cached page is served only after authorization, and after the backend confirms that it is current.

use bytes::Bytes;
use mailapi_model::{FolderName, Listed, Page, ReadMailbox};
use mailapi_service::mailbox::{MessageSummary, PageView, Validator};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::ApiError;
use crate::state::HttpState;

/// The cache.
pub(crate) struct ResponseCache(Cache<PageKey, CachedResponse, Memory>);

/// Approximate memory of a page.
#[derive(Clone)]
struct Memory;

/// The usual size of a page of 50 messages.
const USUAL_PAGE: u64 = 16 * 1024;

/// Identifies a page of a folder, with the names as the response shows them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PageKey {
    mailbox: String,
    folder: FolderName,
    limit: u32,
    offset: u64,
    form: PageForm,
}

/// What a page is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageForm {
    /// A response of the API.
    Json,
    /// A part of a page of the console, the same for every caller.
    Html,
}

/// A page of a folder.
#[derive(Debug)]
pub enum FolderPage {
    /// It has not changed since it was written.
    Written(Bytes),
    /// Its messages, to be written.
    Read(Listed<MessageSummary>, Unwritten),
}

/// The place of a page in the cache.
#[derive(Debug)]
pub struct Unwritten {
    key: PageKey,
    /// `None` if a change could not be noticed.
    validator: Option<Validator>,
}

/// A cached page.
#[derive(Debug, Clone)]
struct CachedResponse {
    /// Validator of the page.
    validator: Validator,
    /// The written page.
    bytes: Bytes,
}

impl HttpState {
    /// Returns a page of a folder that the caller may read: as it was written, if the mail server confirms that it has
    /// not changed.
    ///
    /// # Errors
    /// The mail server's error.
    pub async fn folder_page(
        &self,
        reader: &ReadMailbox,
        folder: &FolderName,
        page: Page,
        form: PageForm,
    ) -> Result<FolderPage, ApiError> {
        let key = PageKey::of(reader, folder.clone(), page, form);
        let cached = self.response_cache().0.get(&key);
        let seen = cached.as_ref().map(|cached| cached.validator);
        match (self.service().list_messages(reader, folder, page, seen).await?, cached) {
            (PageView::Now { listed, validator }, _) => Ok(FolderPage::Read(listed, Unwritten { key, validator })),
            (PageView::Unchanged, Some(cached)) => Ok(FolderPage::Written(cached.bytes)),
            (PageView::Unchanged, None) => Err(ApiError::internal("unchanged page without a validator")),
        }
    }

    /// Caches a page as it is written.
    pub fn cache_page(&self, Unwritten { key, validator }: Unwritten, bytes: Bytes) {
        if let Some(validator) = validator {
            self.response_cache().put(key, CachedResponse { validator, bytes });
        }
    }
}

impl PageKey {
    fn of(reader: &ReadMailbox, folder: FolderName, page: Page, form: PageForm) -> Self {
        Self { mailbox: reader.address().shown().to_owned(), folder, limit: page.limit(), offset: page.offset(), form }
    }
}

impl ResponseCache {
    /// A cache of about this many bytes; 0 disables it.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let pages = usize::try_from(max_bytes / USUAL_PAGE).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(pages, max_bytes, Memory))
    }

    fn put(&self, key: PageKey, page: CachedResponse) {
        self.0.insert(key, page);
    }
}

impl Weighter<PageKey, CachedResponse> for Memory {
    fn weight(&self, key: &PageKey, page: &CachedResponse) -> u64 {
        /// The entry and the cache's own overhead.
        const FIXED: usize = size_of::<PageKey>() + size_of::<CachedResponse>() + 256;
        (FIXED + key.mailbox.len() + key.folder.as_str().len() + page.bytes.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use mailapi_model::Grants;

    use super::*;

    const VALIDATOR: Validator = Validator::new([1, 1]);

    fn key(offset: u64) -> PageKey {
        let ann = Grants::admin_token().may_read(&"ann@example.org".parse().unwrap()).unwrap();
        PageKey::of(&ann, FolderName::inbox(), Page::new(50, offset), PageForm::Json)
    }

    fn kept(pages: &ResponseCache) -> u64 {
        pages.0.weight()
    }

    #[test]
    fn no_more_is_kept_than_there_is_memory_for() {
        for most in [0, 10_000] {
            let pages = ResponseCache::new(most);
            for offset in 0..100 {
                pages.put(key(offset), CachedResponse { validator: VALIDATOR, bytes: vec![b'x'; 1000].into() });
                assert!(kept(&pages) <= most, "{offset}");
            }
            assert_eq!(kept(&pages) > 0, most > 0);
        }
    }

    #[test]
    fn a_new_page_replaces_the_old_one() {
        let pages = ResponseCache::new(10_000);
        pages.put(key(0), CachedResponse { validator: VALIDATOR, bytes: Bytes::from_static(b"before") });
        pages.put(key(0), CachedResponse { validator: Validator::new([1, 2]), bytes: Bytes::from_static(b"after") });
        assert_eq!(pages.0.get(&key(0)).unwrap().bytes, "after");
        assert!(pages.0.get(&key(50)).is_none());
    }
}
