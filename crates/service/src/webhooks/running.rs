//! The rounds in progress, at most one for each webhook.

use std::collections::HashMap;
use std::future::Future;

use mailapi_model::WebhookId;
use tokio::task::{Id, JoinSet};

use crate::Unavailable;

/// The rounds in progress; dropping it ends them.
pub(super) struct Running<T> {
    rounds: JoinSet<Result<T, Unavailable>>,
    webhooks: HashMap<Id, WebhookId>,
}

impl<T: Send + 'static> Running<T> {
    pub(super) fn new() -> Self {
        Self { rounds: JoinSet::new(), webhooks: HashMap::new() }
    }

    /// Starts a round of a webhook, which must have none in progress.
    pub(super) fn start(
        &mut self,
        webhook: WebhookId,
        round: impl Future<Output = Result<T, Unavailable>> + Send + 'static,
    ) {
        let task = self.rounds.spawn(round);
        self.webhooks.insert(task.id(), webhook);
    }

    /// Waits for the end of a round; `None` if there is none. A panic is an error of its webhook: the others go on.
    pub(super) async fn next(&mut self) -> Option<(WebhookId, Result<T, Unavailable>)> {
        let (task, result) = match self.rounds.join_next_with_id().await? {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(Unavailable::Unforeseen(format!("the round panicked: {error}")))),
        };
        self.webhooks.remove(&task).map(|webhook| (webhook, result))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_round_of_its_webhook_alone() {
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let mut running = Running::new();
        running.start(WebhookId(1), async { panic!("a defect") });
        running.start(WebhookId(2), async { Ok(finished.await.is_ok()) });
        let (webhook, result) = running.next().await.unwrap();
        assert!(webhook == WebhookId(1) && result.is_err(), "{webhook}: {result:?}");
        assert!(running.next().now_or_never().is_none(), "the other round goes on");
        finish.send(()).unwrap();
        let (webhook, result) = running.next().await.unwrap();
        assert!(webhook == WebhookId(2) && result.is_ok_and(|finished| finished));
        assert!(running.next().await.is_none());
    }
}
