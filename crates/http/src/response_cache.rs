//! Caches serialized pages of folders, so that unchanged pages are not serialized again.
//!
//! A cached page is served only after authorization, and after the backend confirms that it is current.

use bytes::Bytes;
use mailapi_model::{FolderName, Page, ReadMailbox};
use mailapi_service::mailbox::Validator;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The cache.
pub(crate) struct ResponseCache(Cache<PageKey, CachedResponse, Memory>);

/// Approximate memory of a page.
#[derive(Clone)]
struct Memory;

/// The usual size of a page of 50 messages.
const USUAL_PAGE: u64 = 16 * 1024;

/// Identifies a page of a folder, with the names as the response shows them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    mailbox: String,
    folder: FolderName,
    limit: u32,
    offset: u64,
}

/// A cached page.
#[derive(Debug, Clone)]
pub(crate) struct CachedResponse {
    /// Validator of the page.
    pub(crate) validator: Validator,
    /// The serialized page.
    pub(crate) bytes: Bytes,
}

impl PageKey {
    /// The key of a page that the caller may read.
    pub(crate) fn of(reader: &ReadMailbox, folder: FolderName, page: Page) -> Self {
        Self { mailbox: reader.address().shown().to_owned(), folder, limit: page.limit(), offset: page.offset() }
    }

    pub(crate) const fn folder(&self) -> &FolderName {
        &self.folder
    }
}

impl ResponseCache {
    /// A cache of about this many bytes; 0 disables it.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let pages = usize::try_from(max_bytes / USUAL_PAGE).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(pages, max_bytes, Memory))
    }

    /// The cached page, if any.
    pub(crate) fn get(&self, key: &PageKey) -> Option<CachedResponse> {
        self.0.get(key)
    }

    pub(crate) fn put(&self, key: PageKey, page: CachedResponse) {
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
        PageKey::of(&ann, FolderName::inbox(), Page::new(50, offset))
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
        assert_eq!(pages.get(&key(0)).unwrap().bytes, "after");
        assert!(pages.get(&key(50)).is_none());
    }
}
