//! Limits on the size and age of the index.

use std::time::Duration;

use mailapi_model::EmailAddress;

use crate::indexed::{Indexed, in_inbox, marked};

const HOUR: Duration = Duration::from_secs(60 * 60);

async fn mailbox(setup: &Indexed, local: &str) -> EmailAddress {
    setup.server.mailbox_with(local, &[&marked("one", &format!("needle {}", "straw ".repeat(3_000)))]).await
}

async fn search(setup: &Indexed, mailbox: &EmailAddress) {
    assert_eq!(setup.search(mailbox, &in_inbox("needle")).await.total, 1);
}

#[tokio::test]
async fn who_was_searched_longest_ago_makes_room() {
    let mut setup = Indexed::start().await;
    let [ann, bob, eve] = [mailbox(&setup, "ann").await, mailbox(&setup, "bob").await, mailbox(&setup, "eve").await];
    for one in [&ann, &bob, &ann, &eve] {
        setup.clock.advance(HOUR);
        search(&setup, one).await;
    }
    setup.mailboxes.prune_index().await;
    assert_eq!(setup.files().len(), 3);
    // Room for two of them.
    setup.settings.max_bytes = setup.room_taken() * 5 / 6;
    setup.restart();
    setup.mailboxes.prune_index().await;
    let left = setup.files();
    assert_eq!(left.len(), 2, "bob's index was evicted");
    search(&setup, &ann).await;
    search(&setup, &eve).await;
    assert_eq!(setup.files(), left);
    search(&setup, &bob).await;
    assert_eq!(setup.files(), left, "an evicted index does not return at once");
    setup.clock.advance(setup.settings.evicted_pause);
    search(&setup, &bob).await;
    assert_eq!(setup.files().len(), 3);
}

#[tokio::test]
async fn a_mailbox_too_large_to_index_is_left_to_the_server() {
    let setup = Indexed::start_with("", |settings| settings.max_bytes = 50_000).await;
    let bob = mailbox(&setup, "bob").await;
    assert!(setup.answers_from_index(&bob).await);
    setup.mailboxes.prune_index().await;
    assert!(setup.files().is_empty());
    search(&setup, &bob).await;
    assert!(!setup.answers_from_index(&bob).await);
    assert!(setup.files().is_empty());
    setup.clock.advance(setup.settings.forget_after + HOUR);
    setup.mailboxes.prune_index().await;
    assert!(setup.answers_from_index(&bob).await, "another try");
}

#[tokio::test]
async fn an_index_without_searches_is_forgotten() {
    let mut setup = Indexed::start().await;
    let [ann, bob] = [mailbox(&setup, "ann").await, mailbox(&setup, "bob").await];
    search(&setup, &ann).await;
    search(&setup, &bob).await;
    setup.clock.advance(setup.settings.forget_after / 2 + HOUR);
    search(&setup, &ann).await;
    setup.mailboxes.prune_index().await;
    assert_eq!(setup.files().len(), 2);
    // A search is remembered across a restart.
    setup.restart();
    setup.clock.advance(setup.settings.forget_after / 2);
    setup.mailboxes.prune_index().await;
    assert_eq!(setup.files().len(), 1);
    setup.clock.advance(setup.settings.forget_after);
    setup.mailboxes.prune_index().await;
    assert!(setup.files().is_empty());
}

#[tokio::test]
async fn more_mailboxes_than_may_be_open_are_searched_all_the_same() {
    let setup = Indexed::start_with("", |settings| settings.max_open = 1).await;
    let [ann, bob] = [mailbox(&setup, "ann").await, mailbox(&setup, "bob").await];
    for _ in 0..2 {
        for one in [&ann, &bob] {
            search(&setup, one).await;
            assert!(setup.answers_from_index(one).await);
        }
    }
}
