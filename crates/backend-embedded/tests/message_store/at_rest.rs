//! After a change, each loop runs a few times and then waits.

use futures_util::FutureExt;
use mailapi_backend::DeliveryFeed;

use crate::test_store::{TestStore, ann, folder, mail};

/// Runs after one change: a loop may check twice for new data.
const ROUNDS: usize = 3;

/// Counts the runs of a loop without a new change, up to a limit that counts as endless.
async fn rounds(mut changed: impl AsyncFnMut() -> Option<()>) -> usize {
    let mut count = 0;
    while count < 100 && changed().await.is_some() {
        count += 1;
    }
    count
}

async fn all_rest(test_store: &TestStore) {
    let drop = &test_store.message_store;
    assert!(rounds(async || drop.queue_changed().now_or_never()).await <= ROUNDS, "the agent spins");
    assert!(rounds(async || DeliveryFeed::changed(drop).now_or_never()).await <= ROUNDS, "the feed's reader spins");
}

#[tokio::test]
async fn loops_rest_after_a_change_by_another_process() {
    let test_store = TestStore::new().await;
    let mut watch = test_store.message_store.watch(test_store.message_store.mailbox(&ann()).await.unwrap());
    all_rest(&test_store).await;
    for name in ["Work", "Travel"] {
        test_store.open_again().await.create_folder(&ann(), &folder(name)).await.unwrap();
        watch.changed().await;
        assert!(test_store.message_store.queue_changed().now_or_never().is_some(), "the agent missed the change");
        assert!(
            DeliveryFeed::changed(&test_store.message_store).now_or_never().is_some(),
            "the feed's reader missed the change"
        );
        all_rest(&test_store).await;
        watch.take_pending();
        assert!(watch.changed().now_or_never().is_none(), "an idle session spins");
    }
}

#[tokio::test]
async fn loops_rest_after_a_message_of_this_process() {
    let test_store = TestStore::new().await;
    all_rest(&test_store).await;
    test_store.deliver(&["ann@example.org"], &mail("to ann", ".")).await;
    all_rest(&test_store).await;
}
