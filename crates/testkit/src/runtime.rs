//! The runtime of a test.

/// Lets everybody else on this thread's runtime hear what has been said.
pub async fn turns_of_the_runtime() {
    for _ in 0..100 {
        // At each the runtime looks at its sockets.
        tokio::task::yield_now().await;
    }
}
