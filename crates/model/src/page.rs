//! Pages of lists.

/// Which part of a list is wanted: at most `limit` items after the first `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    offset: u64,
}

impl Page {
    /// Items of a page when the caller names no limit.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The most items of one page; a larger wish is cut down to this.
    pub const MAX_LIMIT: u32 = 200;

    /// A page of at least 1 and at most [`Page::MAX_LIMIT`] items.
    #[must_use]
    pub fn new(limit: u32, offset: u64) -> Self {
        Self { limit: limit.clamp(1, Self::MAX_LIMIT), offset }
    }

    /// How many items at most, 1 to [`Page::MAX_LIMIT`].
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// How many items come before.
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

/// One page of a list and the size of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// Items of the whole list, not only of this page.
    pub total: u64,
    /// The page's items, in the list's order.
    pub items: Vec<T>,
}

impl<T> Listed<T> {
    /// The same page with each item turned into something else.
    pub fn map<U>(self, turn: impl FnMut(T) -> U) -> Listed<U> {
        Listed { total: self.total, items: self.items.into_iter().map(turn).collect() }
    }
}
