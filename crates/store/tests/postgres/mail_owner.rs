//! The data directory that has the mail of the accounts.

use std::time::Duration;

use mailapi_store::{MailClaim, MailClaimed, Store};

use crate::support::{at, database, node};

/// Longer than the test, and no time at all.
const LEASE: Duration = Duration::from_secs(600);
const OVER: Duration = Duration::ZERO;

fn claim_of(node: &str, place: &str, server: &str) -> MailClaim {
    let (node, place, server) = (node.to_owned(), place.to_owned(), server.to_owned());
    MailClaim { node, place, machine: "boot".to_owned(), server, adopts: false }
}

async fn claim(store: &Store, claim: &MailClaim, second: i64, lease: Duration) -> bool {
    store.mail_owners().claim(claim, at(second), lease).await.unwrap() == MailClaimed::Held
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_at_a_time_has_the_mail() {
    let database = database().await;
    let (here, there) = (node(&database).await, node(&database).await);
    assert_eq!(here.mail_owners().get(LEASE).await, Ok(None));
    assert!(claim(&here, &claim_of("a", "one:/data", "first"), 1, LEASE).await);

    // A copy of the directory: on another machine, at another path, and after a restart of the machine.
    let restarted = MailClaim { machine: "another boot".to_owned(), ..claim_of("a", "one:/data", "copy") };
    for copy in [claim_of("a", "two:/data", "copy"), claim_of("a", "one:/copy", "copy"), restarted] {
        assert!(!claim(&there, &copy, 2, LEASE).await, "{copy:?}");
    }
    let owner = there.mail_owners().get(LEASE).await.unwrap().unwrap();
    assert_eq!((owner.place.as_str(), owner.since, owner.running_since), ("one:/data", at(1), Some(at(1))));
    assert_eq!(here.mail_owners().renew("first").await, Ok(true));

    // The same directory: its lock shows that the former server has ended.
    assert!(claim(&here, &claim_of("a", "one:/data", "second"), 3, LEASE).await);
    assert_eq!(here.mail_owners().renew("first").await, Ok(false));
    here.mail_owners().release("first").await.unwrap();
    let owner = there.mail_owners().get(LEASE).await.unwrap().unwrap();
    assert_eq!((owner.since, owner.running_since), (at(1), Some(at(3))));

    // The directory has moved: at once after a stop, otherwise after the lease.
    here.mail_owners().release("second").await.unwrap();
    assert!(claim(&there, &claim_of("a", "two:/data", "third"), 4, LEASE).await);
    assert!(!claim(&here, &claim_of("a", "one:/data", "fourth"), 5, LEASE).await);
    database.sql("UPDATE mail_owner SET seen_at = seen_at - 1");
    assert!(claim(&here, &claim_of("a", "one:/data", "fourth"), 5, OVER).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_directory_is_refused_until_it_adopts_the_mail() {
    let database = database().await;
    let store = node(&database).await;
    assert!(claim(&store, &claim_of("a", "one:/data", "first"), 1, LEASE).await);
    let other = claim_of("b", "two:/data", "second");
    let adopting = MailClaim { adopts: true, ..other.clone() };
    assert!(!claim(&store, &adopting, 2, LEASE).await, "the server runs");
    store.mail_owners().release("first").await.unwrap();
    assert!(!claim(&store, &other, 3, OVER).await);
    assert!(claim(&store, &adopting, 4, LEASE).await);
    let owner = store.mail_owners().get(LEASE).await.unwrap().unwrap();
    assert_eq!((owner.node.as_str(), owner.since), ("b", at(4)));
    assert!(!claim(&store, &claim_of("a", "one:/data", "third"), 5, OVER).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_servers_that_start_together_one_has_the_mail() {
    let database = database().await;
    let (here, there) = (node(&database).await, node(&database).await);
    let (one, other) = (claim_of("a", "one:/data", "first"), claim_of("b", "two:/data", "second"));
    let (first, second) = tokio::join!(claim(&here, &one, 1, LEASE), claim(&there, &other, 1, LEASE));
    assert!(first != second);
}
