//! Links to the other pages of a list.

use mailapi_model::Page;

use crate::fields::Fields;

/// The place of a page in its list.
pub(crate) struct Pager {
    /// The number of items. Without any, the page shows no place.
    pub(crate) total: u64,
    /// `1–50 of 812`.
    pub(crate) place: String,
    /// The link to the page before.
    pub(crate) newer: Option<String>,
    /// The link to the page after.
    pub(crate) older: Option<String>,
}

impl Pager {
    /// The place of `shown` items of `total`, in the list at `path`.
    pub(crate) fn new(path: &str, query: &Fields, page: Page, shown: usize, total: u64) -> Self {
        let (first, limit) = (page.offset(), u64::from(page.limit()));
        let last = first + shown as u64;
        let place = match shown {
            0 => format!("none of {total}"),
            _ => format!("{}–{last} of {total}", first + 1),
        };
        let to = |offset: u64| {
            let offset = if offset == 0 { String::new() } else { offset.to_string() };
            query.link(path, "offset", &offset)
        };
        let newer = (first > 0).then(|| to(first.saturating_sub(limit)));
        let older = (last < total && shown > 0).then(|| to(first + limit));
        Self { total, place, newer, older }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_end_at_both_sides() {
        let pager = |offset, shown, total| Pager::new("/x", &Fields::default(), Page::new(50, offset), shown, total);
        let middle = pager(50, 50, 120);
        assert_eq!((middle.newer.as_deref(), middle.older.as_deref()), (Some("/x"), Some("/x?offset=100")));
        assert_eq!(middle.place, "51–100 of 120");
        let last = pager(100, 20, 120);
        assert_eq!((last.newer.as_deref(), last.older), (Some("/x?offset=50"), None));
        let empty = pager(0, 0, 0);
        assert!(empty.newer.is_none() && empty.older.is_none());
    }
}
