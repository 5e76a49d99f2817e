//! A fixed number of permits, shared fairly between groups, and between the members of each group.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// The client of a request.
pub trait Shared {
    /// Groups are served in turn.
    type Group: PartialEq;
    /// The members of a group are served in turn.
    type Member: PartialEq;

    /// The group.
    fn group(&self) -> Self::Group;
    /// The member of the group.
    fn member(&self) -> Self::Member;
}

/// The permits and the queue for them.
pub struct FairPermits<S: Shared>(Arc<Mutex<State<S>>>);

/// A permit; released on drop.
pub struct FairPermit<S: Shared>(Option<Arc<Mutex<State<S>>>>);

struct State<S: Shared> {
    free: usize,
    /// Waiting requests: groups in the order of service, the members of each, and the requests of each member.
    groups: Rotation<S::Group, Rotation<S::Member, Requests<S>>>,
}

/// The requests of one member.
type Requests<S> = VecDeque<oneshot::Sender<FairPermit<S>>>;

/// A queue of waiting entries, the next one first.
type Rotation<K, V> = VecDeque<(K, V)>;

impl<S: Shared> FairPermits<S> {
    /// Creates this number of permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: permits, groups: VecDeque::new() })))
    }

    /// Waits for a permit.
    pub async fn take(&self, share: S) -> FairPermit<S> {
        let permit = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.free > 0 {
                state.free -= 1;
                return FairPermit(Some(Arc::clone(&self.0)));
            }
            let (sender, permit) = oneshot::channel();
            state.queue(&share, sender);
            permit
        };
        // Senders are dropped only together with the last permit, which this request would have received.
        permit.await.unwrap_or(FairPermit(None))
    }

    /// Takes a permit if more than `reserve` are free. No request waits then.
    pub fn take_beyond(&self, reserve: usize) -> Option<FairPermit<S>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.free.checked_sub(1).filter(|left| *left >= reserve).map(|left| {
            state.free = left;
            FairPermit(Some(Arc::clone(&self.0)))
        })
    }
}

impl<S: Shared> State<S> {
    fn queue(&mut self, share: &S, sender: oneshot::Sender<FairPermit<S>>) {
        let members = of(&mut self.groups, share.group());
        of(members, share.member()).push_back(sender);
    }

    /// Removes the next request; its group and its member move to the end of their queues.
    fn next(&mut self) -> Option<oneshot::Sender<FairPermit<S>>> {
        let (group, mut members) = self.groups.pop_front()?;
        let (member, mut requests) = members.pop_front()?;
        let next = requests.pop_front();
        if !requests.is_empty() {
            members.push_back((member, requests));
        }
        if !members.is_empty() {
            self.groups.push_back((group, members));
        }
        next
    }
}

/// The entry under `key`, added if missing.
fn of<K: PartialEq, V: Default>(rotation: &mut Rotation<K, V>, key: K) -> &mut V {
    let at = rotation.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        rotation.push_back((key, V::default()));
        rotation.len() - 1
    });
    &mut rotation[at].1
}

impl<S: Shared> Drop for FairPermit<S> {
    fn drop(&mut self) {
        let Some(state) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(Arc::clone(&state)))) {
                Ok(()) => return,
                // The request was cancelled while it waited. Dropping the returned permit normally would release
                // it twice.
                Err(mut back) => drop(back.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[derive(Clone, Copy)]
    struct Name(char, u8);

    impl Shared for Name {
        type Group = char;
        type Member = u8;

        fn group(&self) -> char {
            self.0
        }

        fn member(&self) -> u8 {
            self.1
        }
    }

    /// The order in which waiting requests get the only permit.
    fn order(requests: &[Name], given_up: &[usize]) -> Vec<usize> {
        let permits = FairPermits::new(1);
        let mut held = permits.take(Name('-', 0)).now_or_never();
        assert!(held.is_some());
        let mut waiting: Vec<_> = requests.iter().map(|name| Some(Box::pin(permits.take(*name)))).collect();
        for request in waiting.iter_mut().flatten() {
            assert!(request.as_mut().now_or_never().is_none());
        }
        for n in given_up {
            waiting[*n] = None;
        }
        let mut order = Vec::new();
        while let Some(permit) = held.take() {
            drop(permit);
            for (n, request) in waiting.iter_mut().enumerate() {
                if let Some(permit) = request.as_mut().and_then(|request| request.as_mut().now_or_never()) {
                    *request = None;
                    order.push(n);
                    held = Some(permit);
                    break;
                }
            }
        }
        assert!(permits.take(Name('-', 0)).now_or_never().is_some(), "the permit is free again");
        order
    }

    #[test]
    fn a_reserve_is_left_to_others() {
        let permits = FairPermits::new(3);
        let held: Vec<_> = std::iter::from_fn(|| permits.take_beyond(1)).collect();
        assert_eq!(held.len(), 2);
        assert!(permits.take(Name('s', 1)).now_or_never().is_some());
        drop(held);
        assert!(permits.take_beyond(2).is_some() && permits.take_beyond(3).is_none());
    }

    #[test]
    fn a_hundred_of_one_group_do_not_hold_another_up() {
        let mut requests = vec![Name('s', 1); 95];
        requests.push(Name('h', 1));
        assert_eq!(order(&requests, &[])[1], 95);
    }

    #[test]
    fn clients_of_one_group_take_turns() {
        let requests = [Name('s', 1), Name('s', 1), Name('s', 1), Name('s', 2), Name('h', 1), Name('h', 1)];
        assert_eq!(order(&requests, &[]), [0, 4, 3, 5, 1, 2]);
    }

    #[test]
    fn a_request_that_is_given_up_blocks_no_place() {
        let requests = [Name('s', 1), Name('s', 1), Name('h', 1), Name('s', 2)];
        assert_eq!(order(&requests, &[0, 2]), [3, 1]);
        assert_eq!(order(&requests, &[0, 1, 2, 3]), [0; 0]);
    }
}
