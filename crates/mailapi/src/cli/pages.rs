//! Collects whole lists from pages.

use mailapi_model::{Listed, Page};

/// Returns all items of a paged list. Items that appear or disappear meanwhile may be missed or returned twice.
pub(super) async fn every_page<T, E, F>(list: impl Fn(Page) -> F) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<Listed<T>, E>>,
{
    let mut all = Vec::new();
    loop {
        let Listed { total, items } = list(Page::new(Page::MAX_LIMIT, all.len() as u64)).await?;
        let was_last = items.is_empty();
        all.extend(items);
        if was_last || all.len() as u64 >= total {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_item_comes_once_and_a_list_that_shrinks_ends() {
        let numbers: Vec<u64> = (0..450).collect();
        let page_of = |page: Page| {
            let items = numbers.iter().skip(usize::try_from(page.offset()).unwrap()).take(page.limit() as usize);
            std::future::ready(Ok::<_, ()>(Listed { total: 450, items: items.copied().collect() }))
        };
        assert_eq!(every_page(page_of).await.unwrap(), numbers);
        let shrunk = |_| std::future::ready(Ok::<_, ()>(Listed::<u64> { total: 9, items: Vec::new() }));
        assert!(every_page(shrunk).await.unwrap().is_empty());
    }
}
