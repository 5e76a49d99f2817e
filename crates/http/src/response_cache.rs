//! Pages of folders as they were written, so that one that has not changed is not written again.
//!
//! What is kept is no answer by itself: it is found by whoever may read the mailbox, and shown after the mail server
//! has told that it is what would be listed now.

use bytes::Bytes;
use mailapi_model::{FolderName, Page, ReadMailbox};
use mailapi_service::mailbox::Validator;
use moka::sync::Cache;

/// All that are kept.
pub(crate) struct ResponseCache(Cache<PageKey, CachedResponse>);

/// Which page of which folder, named as the answer names them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    mailbox: String,
    folder: FolderName,
    limit: u32,
    offset: u64,
}

/// A page that was written.
#[derive(Debug, Clone)]
pub(crate) struct CachedResponse {
    /// What tells whether it has changed.
    pub(crate) validator: Validator,
    /// Its JSON.
    pub(crate) octets: Bytes,
}

impl PageKey {
    /// What somebody may read.
    pub(crate) fn of(reader: &ReadMailbox, folder: FolderName, page: Page) -> Self {
        Self { mailbox: reader.address().shown().to_owned(), folder, limit: page.limit(), offset: page.offset() }
    }

    pub(crate) const fn folder(&self) -> &FolderName {
        &self.folder
    }
}

impl ResponseCache {
    /// Keeps about so many octets, and nothing when that is 0.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self(Cache::builder().max_capacity(max_bytes).weigher(weight).build())
    }

    /// What was written last of this page.
    pub(crate) fn get(&self, key: &PageKey) -> Option<CachedResponse> {
        self.0.get(key)
    }

    pub(crate) fn put(&self, key: PageKey, page: CachedResponse) {
        self.0.insert(key, page);
    }
}

/// About how much memory a page takes.
fn weight(key: &PageKey, page: &CachedResponse) -> u32 {
    /// The entry itself, and what the cache keeps about it.
    const FIXED: usize = size_of::<PageKey>() + size_of::<CachedResponse>() + 256;
    let octets = FIXED + key.mailbox.len() + key.folder.as_str().len() + page.octets.len();
    u32::try_from(octets).unwrap_or(u32::MAX)
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
        pages.0.run_pending_tasks();
        pages.0.weighted_size()
    }

    #[test]
    fn no_more_is_kept_than_there_is_memory_for() {
        for most in [0, 10_000] {
            let pages = ResponseCache::new(most);
            for offset in 0..100 {
                pages.put(key(offset), CachedResponse { validator: VALIDATOR, octets: vec![b'x'; 1000].into() });
                assert!(kept(&pages) <= most, "{offset}");
            }
            assert_eq!(kept(&pages) > 0, most > 0);
        }
    }

    #[test]
    fn a_new_page_replaces_the_cached_one() {
        let pages = ResponseCache::new(10_000);
        pages.put(key(0), CachedResponse { validator: VALIDATOR, octets: Bytes::from_static(b"before") });
        pages.put(key(0), CachedResponse { validator: Validator::new([1, 2]), octets: Bytes::from_static(b"after") });
        assert_eq!(pages.get(&key(0)).unwrap().octets, "after");
        assert!(pages.get(&key(50)).is_none());
    }
}
