use mailapi_store::{GreylistKept, Store};

use crate::engines::{Engine, at, on_every_engine};

/// Attempts at this second, with a delay of 100 seconds.
async fn attempt(store: &Store, keys: &[&str], second: i64) -> bool {
    let keys = keys.iter().map(ToString::to_string).collect();
    store.greylist().attempt(keys, at(second), at(second - 100)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_passes_after_the_delay_and_stays_passed() {
    on_every_engine(async |store| {
        assert!(!attempt(store, &["a"], 1000).await);
        assert!(!attempt(store, &["a"], 1099).await, "an early attempt does not pass");
        assert!(attempt(store, &["a"], 1100).await, "nor does it prolong the delay");
        assert!(store.greylist().attempt(vec!["a".to_owned()], at(1101), at(0)).await.unwrap());
        assert!(!attempt(store, &["b"], 1101).await, "another key");
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
            let attempt = |keys: &Vec<String>| greylist.attempt(keys.clone(), at(second), at(second - 100));
            let (first, last) = tokio::join!(attempt(&keys), attempt(&reversed));
            assert_eq!((first, last), (Ok(second == 1100), Ok(second == 1100)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_keys_and_those_above_the_limit_are_deleted() {
    for engine in [Engine::sqlite().await, Engine::postgres().await] {
        let store = &engine.store;
        for (key, first, last) in
            [("gone", 1000, None), ("late", 1500, None), ("old", 1000, Some(1300)), ("new", 1000, Some(1900))]
        {
            attempt(store, &[key], first).await;
            if let Some(last) = last {
                assert!(attempt(store, &[key], last).await);
            }
        }
        let keys =
            || engine.sql("SELECT key FROM greylist ORDER BY key").lines().map(str::to_owned).collect::<Vec<_>>();
        let kept = |rows| GreylistKept { waiting: at(1500), passed: at(1300), rows };
        assert_eq!(store.greylist().prune(kept(9)).await, Ok(1));
        assert_eq!(keys(), ["late", "new", "old"]);
        assert_eq!(store.greylist().prune(kept(2)).await, Ok(1), "the one that never passed");
        assert_eq!(keys(), ["new", "old"]);
        assert_eq!(store.greylist().prune(kept(1)).await, Ok(1));
        assert_eq!(store.greylist().prune(GreylistKept { passed: at(1901), ..kept(9) }).await, Ok(1));
        assert_eq!(keys(), [""; 0]);
        engine.store.close().await;
    }
}
