//! Pages of lists.

/// The requested part of a list: at most `limit` items after the first `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    offset: u64,
}

impl Page {
    /// Items per page if the caller gives no limit.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// Maximum items per page; larger values are reduced to this.
    pub const MAX_LIMIT: u32 = 200;

    /// Creates a page of at least 1 and at most [`Page::MAX_LIMIT`] items.
    #[must_use]
    pub fn new(limit: u32, offset: u64) -> Self {
        Self { limit: limit.clamp(1, Self::MAX_LIMIT), offset }
    }

    /// Returns the maximum number of items, 1 to [`Page::MAX_LIMIT`].
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// Returns the number of items to skip.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.offset
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new(Self::DEFAULT_LIMIT, 0)
    }
}

/// One page of a list, and the length of the whole list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// Length of the whole list.
    pub total: u64,
    /// The items of the page, in list order.
    pub items: Vec<T>,
}

impl<T> Listed<T> {
    /// Converts each item.
    pub fn map<U>(self, turn: impl FnMut(T) -> U) -> Listed<U> {
        Listed { total: self.total, items: self.items.into_iter().map(turn).collect() }
    }
}
