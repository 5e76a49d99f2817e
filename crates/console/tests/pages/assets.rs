//! Files of the pages, and the size of the first page.

use crate::support::{ANN, Browser, server};

#[tokio::test]
async fn an_unknown_file_is_an_error_page() {
    let app = server().await;
    assert_eq!(Browser::new(&app).get("/console/assets/console.map").await.status, 404);
}

#[tokio::test]
async fn the_first_page_with_its_files_is_small() {
    let app = server().await;
    let browser = Browser::of(&app, ANN).await;
    let html = browser.page("/console").await;
    let mut bytes = html.len();
    for name in ["console.css", "console.js", "htmx-2.0.11.min.js", "icon.svg"] {
        let path = format!("/console/assets/{name}");
        assert!(html.contains(&path), "the page uses {path}");
        let answer = browser.get(&path).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, "public, max-age=3600"), "{path}");
        bytes += answer.body.len();
    }
    assert!(bytes <= 60_000, "the first page is {bytes} bytes");
}
