use mailapi_model::RuleSet;
use mailapi_store::StoreError;

use crate::engines::{add_account, at, email, on_every_engine};

const STOP: &str = "rule\ton\ta \"b\" ü\ndo\tstop\n";
const FORWARD: &str = "rule\toff\tx\nif\tfrom\tis\ta\\\\b\ndo\tforward\tTim@other.example\n";

fn rules(text: &str) -> RuleSet {
    RuleSet::from_text(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_belong_to_an_account() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        assert_eq!(store.rules().put(&ann, &rules(STOP)).await, Err(StoreError::Reference));
        add_account(store, "ann@example.org", 1).await;
        assert_eq!(store.rules().get(&ann).await, Ok(RuleSet::default()));
        for text in [STOP, FORWARD] {
            store.rules().put(&ann, &rules(text)).await.unwrap();
            assert_eq!(store.rules().get(&ann).await, Ok(rules(text)));
        }
        assert!(store.accounts().delete(&ann, at(2)).await.unwrap());
        assert_eq!(store.rules().get(&ann).await, Ok(RuleSet::default()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_read_in_the_order_of_addresses() {
    on_every_engine(async |store| {
        for (name, text) in [("cid@example.org", STOP), ("ann@example.org", FORWARD), ("bob@example.org", STOP)] {
            add_account(store, name, 1).await;
            store.rules().put(&email(name), &rules(text)).await.unwrap();
        }
        store.rules().put(&email("bob@example.org"), &RuleSet::default()).await.unwrap();
        let all = store.rules().after(None, 10).await.unwrap();
        let expected = [(email("ann@example.org"), rules(FORWARD)), (email("cid@example.org"), rules(STOP))];
        assert_eq!(all, expected);
        assert_eq!(store.rules().after(None, 1).await.unwrap(), expected[..1]);
        assert_eq!(store.rules().after(Some(&expected[0].0), 10).await.unwrap(), expected[1..]);
    })
    .await;
}
