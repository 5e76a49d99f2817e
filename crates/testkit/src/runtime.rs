//! The runtime of a test.

/// Lets all other tasks on this thread's runtime process pending messages.
pub async fn turns_of_the_runtime() {
    for _ in 0..100 {
        // The runtime polls its sockets between yields.
        tokio::task::yield_now().await;
    }
}
