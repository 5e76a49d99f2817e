//! Shares the result of a request among concurrent callers.
//!
//! No caller receives a result that is older than its request. A caller that arrives while a request is running waits
//! for the next one, together with all others that arrived meanwhile. Group commit does the same for writes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Running requests by key.
pub(super) struct Shared<K, A> {
    questions: Mutex<HashMap<K, Entry<A>>>,
}

/// A request and the number of its callers. The map's lock guards the number, so that the last caller recognises
/// itself.
struct Entry<A> {
    question: Arc<Question<A>>,
    askers: usize,
}

struct Question<A> {
    /// The number of calls so far.
    asked: AtomicU64,
    /// The newest result, and how many calls had arrived before it was begun.
    answer: tokio::sync::Mutex<Option<(u64, A)>>,
}

/// A caller. The last one to leave removes the request.
struct Asker<'a, K: Hash + Eq, A> {
    shared: &'a Shared<K, A>,
    key: K,
    question: Arc<Question<A>>,
}

impl<K: Hash + Eq + Clone, A: Clone> Shared<K, A> {
    pub(super) fn new() -> Self {
        Self { questions: Mutex::default() }
    }

    /// Returns a result that was begun after this call, by `find` or by another caller's. If that caller is
    /// cancelled, the next one begins again.
    pub(super) async fn ask(&self, key: K, find: impl AsyncFnOnce() -> A) -> A {
        let asker = self.enter(key);
        let question = &asker.question;
        let number = question.asked.fetch_add(1, Ordering::SeqCst);
        let mut answer = question.answer.lock().await;
        // Begun after this call arrived: the result is new enough.
        if let Some((askers, answer)) = &*answer
            && number < *askers
        {
            return answer.clone();
        }
        let askers = question.asked.load(Ordering::SeqCst);
        let found = find().await;
        *answer = Some((askers, found.clone()));
        found
    }

    fn enter(&self, key: K) -> Asker<'_, K, A> {
        let question = {
            let mut questions = self.questions();
            let entry = questions.entry(key.clone()).or_default();
            entry.askers += 1;
            entry.question.clone()
        };
        Asker { shared: self, key, question }
    }
}

impl<K, A> Shared<K, A> {
    fn questions(&self) -> MutexGuard<'_, HashMap<K, Entry<A>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Default for Entry<A> {
    fn default() -> Self {
        Self { question: Arc::default(), askers: 0 }
    }
}

impl<A> Default for Question<A> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), answer: tokio::sync::Mutex::default() }
    }
}

impl<K: Hash + Eq, A> Drop for Asker<'_, K, A> {
    fn drop(&mut self) {
        let mut questions = self.shared.questions();
        let Some(entry) = questions.get_mut(&self.key) else { return };
        entry.askers -= 1;
        if entry.askers == 0 {
            questions.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn an_answer_begun_before_a_request_is_not_returned() {
        let (shared, begun, gate) = (Shared::new(), Cell::new(0), Semaphore::new(0));
        let ask = || {
            shared.ask("inbox", async || {
                begun.set(begun.get() + 1);
                let number = begun.get();
                gate.acquire().await.unwrap().forget();
                number
            })
        };
        let first = ask();
        let others = async {
            // The first call is running by now; these arrive too late for its result.
            assert_eq!(begun.get(), 1);
            gate.add_permits(2);
            join_all([ask(), ask(), ask()]).await
        };
        let (first, others) = futures_util::future::join(first, others).await;
        assert_eq!((first, others), (1, vec![2, 2, 2]));
        assert!(shared.questions().is_empty());
    }

    /// Another thread may have left and still hold the request.
    #[test]
    fn the_last_caller_to_leave_cancels_the_shared_query() {
        let shared = Shared::<_, ()>::new();
        let (first, second) = (shared.enter("inbox"), shared.enter("inbox"));
        let held = first.question.clone();
        drop(first);
        assert_eq!(shared.questions().len(), 1);
        drop(second);
        assert!(shared.questions().is_empty());
        drop(held);
    }

    #[tokio::test]
    async fn who_gives_up_leaves_the_question_to_the_next() {
        let (shared, gate) = (Shared::new(), Semaphore::new(0));
        let ask = |answer| {
            let gate = &gate;
            shared.ask((), async move || {
                gate.acquire().await.unwrap().forget();
                answer
            })
        };
        let mut given_up = Box::pin(ask(1));
        assert!(futures_util::FutureExt::now_or_never(&mut given_up).is_none());
        let mut next = Box::pin(ask(2));
        assert!(futures_util::FutureExt::now_or_never(&mut next).is_none());
        drop(given_up);
        gate.add_permits(1);
        assert_eq!(next.await, 2);
        assert!(shared.questions().is_empty());
    }
}
