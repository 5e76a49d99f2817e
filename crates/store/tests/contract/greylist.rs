use mailapi_store::{GreylistAnswer, GreylistAttempt, GreylistRemoval, GreylistRoom, GreylistRows, Store};

use crate::engines::{Engine, at, on_every_engine};

const ROOM: GreylistRoom = GreylistRoom { waiting: 100, passed: 100, is_full_of_passed: false };
const NETWORK: &str = "192.0.2.0/24";
const DAY: i64 = 24 * 60 * 60;

/// An attempt at this second, with a delay of 100 seconds.
fn attempt_of(keys: &[&str], second: i64) -> GreylistAttempt {
    let keys = keys.iter().map(ToString::to_string).collect();
    GreylistAttempt { keys, network: NETWORK.to_owned(), now: at(second), before: at(second - 100), room: ROOM }
}

async fn attempt(store: &Store, keys: &[&str], second: i64) -> bool {
    store.greylist().attempt(&attempt_of(keys, second)).await.unwrap().0 == GreylistAnswer::Passes
}

async fn within(store: &Store, room: GreylistRoom, network: &str, keys: &[&str], second: i64) -> GreylistAnswer {
    let attempt = GreylistAttempt { network: network.to_owned(), room, ..attempt_of(keys, second) };
    store.greylist().attempt(&attempt).await.unwrap().0
}

fn keys(engine: &Engine) -> Vec<String> {
    engine.sql("SELECT key FROM greylist ORDER BY key").lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_passes_after_the_delay_and_stays_passed() {
    on_every_engine(async |store| {
        assert!(!attempt(store, &["a"], 1000).await);
        assert!(!attempt(store, &["a"], 1099).await, "an early attempt does not pass");
        assert!(attempt(store, &["a"], 1100).await, "nor does it prolong the delay");
        let early = GreylistAttempt { before: at(0), ..attempt_of(&["a"], 1101) };
        assert_eq!(store.greylist().attempt(&early).await.unwrap().0, GreylistAnswer::Passes);
        assert!(!attempt(store, &["b"], 1101).await, "another key");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_the_future_passes_after_the_clock_was_set_back() {
    on_every_engine(async |store| {
        assert!(!attempt(store, &["a", "b"], 1000 + 30 * DAY).await);
        assert!(attempt(store, &["a"], 1000).await);
        assert!(attempt(store, &["a"], 1001).await);
        // The clocks of two nodes differ by less than the delay.
        assert!(!attempt(store, &["b"], 1000 + 30 * DAY - 50).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_passes_when_all_of_its_keys_do() {
    on_every_engine(async |store| {
        assert!(!attempt(store, &["b", "a"], 1000).await);
        assert!(!attempt(store, &["a", "c", "b"], 1200).await);
        assert!(attempt(store, &["a", "b", "a"], 1201).await);
        assert!(attempt(store, &["c", "a"], 1300).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_attempts_do_not_wait_for_each_other() {
    on_every_engine(async |store| {
        let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
        let reversed: Vec<String> = keys.iter().rev().cloned().collect();
        let greylist = store.greylist();
        for second in [1000, 1100] {
            let one = GreylistAttempt { keys: keys.clone(), ..attempt_of(&[], second) };
            let other = GreylistAttempt { keys: reversed.clone(), ..attempt_of(&[], second) };
            let (first, last) = tokio::join!(greylist.attempt(&one), greylist.attempt(&other));
            let expected = if second == 1100 { GreylistAnswer::Passes } else { GreylistAnswer::Waits };
            assert_eq!((first.unwrap().0, last.unwrap().0), (expected, expected));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_with_its_share_gets_no_further_row() {
    for engine in [Engine::sqlite().await, Engine::postgres().await] {
        let store = &engine.store;
        let room = GreylistRoom { waiting: 2, ..ROOM };
        assert_eq!(within(store, room, NETWORK, &["known"], 1000).await, GreylistAnswer::Waits);
        assert_eq!(within(store, room, NETWORK, &["known"], 1100).await, GreylistAnswer::Passes);
        // One message has more recipients than there is room for.
        assert_eq!(within(store, room, NETWORK, &["a", "b", "c"], 2000).await, GreylistAnswer::Waits);
        let full = GreylistAnswer::Unlisted { waiting: 2 };
        assert_eq!(within(store, room, NETWORK, &["d"], 2001).await, full);
        assert_eq!(within(store, room, NETWORK, &["known", "d"], 2001).await, full);
        assert_eq!(within(store, room, NETWORK, &["known"], 2002).await, GreylistAnswer::Passes);
        assert_eq!(within(store, room, "198.51.100.0/24", &["e"], 2003).await, GreylistAnswer::Waits);
        assert_eq!(keys(&engine), ["a", "b", "e", "known"]);
        // Those with a row pass and make room.
        assert_eq!(within(store, room, NETWORK, &["a"], 2100).await, GreylistAnswer::Passes);
        assert_eq!(within(store, room, NETWORK, &["c"], 2100).await, GreylistAnswer::Waits);
        let none = GreylistRoom { waiting: 0, ..ROOM };
        let unlisted = GreylistAnswer::Unlisted { waiting: 0 };
        assert_eq!(within(store, none, "203.0.113.0/24", &["f"], 2100).await, unlisted);
        assert_eq!(store.greylist().rows().await, Ok(GreylistRows { waiting: 3, passed: 2 }));
        engine.store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_replaces_its_own_oldest_known_senders() {
    for engine in [Engine::sqlite().await, Engine::postgres().await] {
        let store = &engine.store;
        let room = GreylistRoom { passed: 2, ..ROOM };
        for (network, key, second) in
            [("other", "other", 1000), (NETWORK, "a", 1001), (NETWORK, "b", 1002), (NETWORK, "c", 1003)]
        {
            within(store, room, network, &[key], second).await;
            assert_eq!(within(store, room, network, &[key], second + 100).await, GreylistAnswer::Passes);
        }
        assert_eq!(keys(&engine), ["b", "c", "other"]);
        // If the table is full, the sender that was not seen for the longest time makes room.
        let full = GreylistRoom { is_full_of_passed: true, ..room };
        within(store, full, "new", &["new"], 2000).await;
        assert_eq!(within(store, full, "new", &["new"], 2100).await, GreylistAnswer::Passes);
        assert_eq!(keys(&engine), ["b", "c", "new"]);
        engine.store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_keys_are_deleted_a_few_at_a_time() {
    for engine in [Engine::sqlite().await, Engine::postgres().await] {
        let store = &engine.store;
        for (key, first, last) in [
            ("gone", 1000, None),
            ("lost", 1001, None),
            ("late", 1500, None),
            ("old", 1000, Some(1300)),
            ("new", 1000, Some(1900)),
        ] {
            attempt(store, &[key], first).await;
            if let Some(last) = last {
                assert!(attempt(store, &[key], last).await);
            }
        }
        let remove = async |removal, limit| store.greylist().remove(removal, limit).await.unwrap();
        let waiting = GreylistRemoval::Waiting { before: at(1500) };
        assert_eq!(remove(waiting, 1).await, 1);
        assert_eq!(keys(&engine), ["late", "lost", "new", "old"]);
        assert_eq!([remove(waiting, 9).await, remove(waiting, 9).await], [1, 0]);
        assert_eq!(remove(GreylistRemoval::Passed { before: at(1300) }, 9).await, 0);
        assert_eq!(remove(GreylistRemoval::LongestUnseen, 1).await, 1);
        assert_eq!(keys(&engine), ["late", "new"]);
        assert_eq!(remove(GreylistRemoval::LongestWaiting, 1).await, 1);
        assert_eq!(keys(&engine), ["new"]);
        // A message on another day keeps the sender known.
        assert!(attempt(store, &["new"], 1900 + DAY).await);
        assert_eq!(remove(GreylistRemoval::Passed { before: at(1900 + DAY) }, 9).await, 0);
        assert_eq!(remove(GreylistRemoval::Passed { before: at(1901 + DAY) }, 9).await, 1);
        engine.store.close().await;
    }
}
