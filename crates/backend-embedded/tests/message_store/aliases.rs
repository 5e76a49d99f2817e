use mailapi_backend::{DeliveryFeed, Mailboxes, Provisioning};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::accept::{AcceptError, Expanded, Incoming, RecipientCheck, Relaying, Taken};
use mailapi_model::{Alias, EmailAddress, FeedCursor, Timestamp};

use super::accept::nothing_was_written;
use super::test_store::{TestStore, address, ann, bob, mail};

fn alias(name: &str, members: &[&str]) -> Alias {
    let members = members.iter().map(|member| address(member)).collect();
    Alias { address: address(name), members, senders: Vec::new(), active: true, created_at: Timestamp::from_seconds(0) }
}

async fn with_aliases(aliases: &[(&str, &[&str])]) -> TestStore {
    with_postmasters(aliases, Vec::new()).await
}

async fn with_postmasters(aliases: &[(&str, &[&str])], postmasters: Vec<EmailAddress>) -> TestStore {
    let test_store = TestStore::with(MessageStoreSettings { postmasters, ..MessageStoreSettings::default() }).await;
    for (name, members) in aliases {
        test_store.message_store.put_alias(&alias(name, members)).await.unwrap();
    }
    test_store
}

async fn accept(test_store: &TestStore, recipients: &[&str]) -> Result<Taken, AcceptError> {
    test_store.message_store.accept(test_store.incoming(recipients, &mail("Hi", "."))).await
}

/// Returns the codes of the refusals, if every recipient is refused.
async fn refusals(test_store: &TestStore, recipients: &[&str]) -> Vec<String> {
    let Err(AcceptError::NoRecipients(refused)) = accept(test_store, recipients).await else { panic!("accepted") };
    refused.iter().map(|refusal| format!("{} {}", refusal.reply.code, refusal.reply.enhanced.unwrap())).collect()
}

async fn held(test_store: &TestStore, mailbox: &EmailAddress) -> u64 {
    test_store.message_store.quota(mailbox).await.unwrap().messages
}

/// Returns the reports: recipient, address that was tried, outcome.
async fn reported(test_store: &TestStore) -> Vec<String> {
    let batch = test_store.message_store.read_after(&FeedCursor::default(), 100).await.unwrap();
    let shown = |event: &mailapi_model::DeliveryEvent| {
        let tried = event.final_recipient.as_ref().map_or("-", EmailAddress::as_str);
        format!("{} {tried} {}", event.recipient, event.outcome.as_str())
    };
    batch.events.iter().map(shown).collect()
}

#[tokio::test]
async fn an_alias_without_a_mailbox_is_refused() {
    let test_store = with_aliases(&[
        ("gone@example.org", &["left@example.org"]),
        ("one@example.org", &["two@example.org"]),
        ("two@example.org", &["one@example.org", "two+x@example.org"]),
    ])
    .await;
    assert_eq!(refusals(&test_store, &["gone@example.org", "one@example.org"]).await, ["550 5.2.4", "550 5.2.4"]);
    let off = Alias { active: false, ..alias("off@example.org", &["ann@example.org"]) };
    test_store.message_store.put_alias(&off).await.unwrap();
    assert_eq!(refusals(&test_store, &["off@example.org"]).await, ["550 5.1.1"]);
    test_store.message_store.remove_alias(&address("gone@example.org")).await.unwrap();
    assert_eq!(refusals(&test_store, &["gone@example.org"]).await, ["550 5.1.1"]);
    nothing_was_written(&test_store);
}

#[tokio::test]
async fn an_alias_without_members_here_is_queued_and_not_delivered() {
    let test_store = with_aliases(&[
        ("far@example.org", &["a@far.example"]),
        ("both@example.org", &["a@far.example", "ann@example.org"]),
    ])
    .await;
    let taken = accept(&test_store, &["far@example.org", "both@example.org"]).await.unwrap();
    assert_eq!(taken.delivered, [address("both@example.org")]);
    assert_eq!(taken.queued, ["far@example.org", "both@example.org"].map(address));
}

#[tokio::test]
async fn each_member_gets_the_message_once() {
    let test_store = with_aliases(&[
        ("team@example.org", &["ann@example.org", "bob@example.org"]),
        ("all@example.org", &["team@example.org", "bob+news@example.org", "all@example.org"]),
    ])
    .await;
    let recipients = ["all@example.org", "ann@example.org", "team+x@example.org"];
    let taken = accept(&test_store, &recipients).await.unwrap();
    assert_eq!((taken.delivered.len(), taken.refused, taken.partly_failed), (3, vec![], vec![]));
    assert_eq!((held(&test_store, &ann()).await, held(&test_store, &bob()).await), (1, 1));
    let expected = [
        "ann@example.org - sent",
        "all@example.org bob+news@example.org sent",
        "all@example.org ann@example.org sent",
        "team+x@example.org ann@example.org sent",
        "team+x@example.org bob@example.org sent",
    ];
    assert_eq!(reported(&test_store).await, expected);
}

#[tokio::test]
async fn a_member_that_cannot_receive_does_not_harm_the_others() {
    let members = ["ann@example.org", "left@example.org", "bob@example.org"];
    let test_store = with_aliases(&[("team@example.org", &members)]).await;
    test_store.message_store.put_mailbox(&ann(), Some(10)).await.unwrap();
    let taken = accept(&test_store, &["team@example.org"]).await.unwrap();
    let failed = taken.partly_failed.iter().map(|refusal| format!("{} {}", refusal.recipient, refusal.reply));
    let expected = [
        "team@example.org 552 5.2.2 A member of the alias: The mailbox is full",
        "team@example.org 550 5.1.1 A member of the alias: No such mailbox",
    ];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
    assert_eq!((held(&test_store, &ann()).await, held(&test_store, &bob()).await), (0, 1));
    let expected = [
        "team@example.org ann@example.org bounced",
        "team@example.org left@example.org bounced",
        "team@example.org bob@example.org sent",
    ];
    assert_eq!(reported(&test_store).await, expected);

    test_store.message_store.put_mailbox(&bob(), Some(10)).await.unwrap();
    assert_eq!(refusals(&test_store, &["team@example.org"]).await, ["552 5.2.2"], "all are full");
    let check = test_store.check("team@example.org", 100, Relaying::Denied).await;
    let RecipientCheck::Refused(reply) = check else { panic!("{check:?}") };
    assert_eq!(reply.to_string(), "452 4.2.2 The mailbox is full, try again later", "another server retries");
}

#[tokio::test]
async fn a_catch_all_gets_what_nothing_else_gets() {
    let test_store = with_aliases(&[
        ("*@example.org", &["ann@example.org"]),
        ("team@example.org", &["bob@example.org"]),
        ("*@elsewhere.example", &["bob@example.org"]),
    ])
    .await;
    for recipient in ["nobody@example.org", "a+b@example.org", "postmaster@example.org"] {
        accept(&test_store, &[recipient]).await.unwrap();
    }
    assert_eq!((held(&test_store, &ann()).await, held(&test_store, &bob()).await), (3, 0));
    for recipient in ["bob@example.org", "bob+x@example.org", "team@example.org"] {
        accept(&test_store, &[recipient]).await.unwrap();
    }
    assert_eq!((held(&test_store, &ann()).await, held(&test_store, &bob()).await), (3, 3));
    let taken = accept(&test_store, &["x@elsewhere.example"]).await.unwrap();
    assert_eq!(taken.queued, [address("x@elsewhere.example")], "mail of the domain is not delivered here");
    test_store.message_store.remove_aliases_of(&"example.org".parse().unwrap()).await.unwrap();
    assert_eq!(refusals(&test_store, &["nobody@example.org", "team@example.org"]).await.len(), 2);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_aliases"), 1, "the other domain keeps its own");
}

#[tokio::test]
async fn every_domain_has_a_postmaster() {
    let without = with_aliases(&[]).await;
    accept(&without, &["postmaster@example.org"]).await.unwrap();
    assert_eq!(held(&without, &ann()).await, 1, "the oldest mailbox");
    let team = address("team@example.org");
    let alias_of_bob = [("team@example.org", &["bob@example.org"][..])];
    let with_alias = with_postmasters(&alias_of_bob, vec![team]).await;
    accept(&with_alias, &["postmaster@example.org"]).await.unwrap();
    assert_eq!(held(&with_alias, &bob()).await, 1, "an alias can be the postmaster");
    let test_store = with_postmasters(&[], vec![address("nobody@example.org"), ann()]).await;
    test_store.message_store.put_domain(&"other.example".parse().unwrap()).await.unwrap();
    for recipient in ["postmaster@example.org", "Abuse@other.example"] {
        accept(&test_store, &[recipient]).await.unwrap();
    }
    assert_eq!(held(&test_store, &ann()).await, 2);
    assert_eq!(refusals(&test_store, &["webmaster@example.org"]).await, ["550 5.1.1"]);
    test_store.message_store.put_alias(&alias("abuse@other.example", &["bob@example.org"])).await.unwrap();
    accept(&test_store, &["abuse@other.example"]).await.unwrap();
    assert_eq!(
        (held(&test_store, &ann()).await, held(&test_store, &bob()).await),
        (2, 1),
        "the domain's own comes first"
    );
}

#[tokio::test]
async fn an_alias_of_aliases_has_a_largest_size() {
    let test_store = with_aliases(&[("all@example.org", &["ann@example.org", "many@example.org"])]).await;
    let members: Vec<String> = (0..1_000).map(|n| format!("u{n}@example.org")).collect();
    let many = alias("many@example.org", &members.iter().map(String::as_str).collect::<Vec<_>>());
    test_store.message_store.put_alias(&many).await.unwrap();
    assert_eq!(refusals(&test_store, &["all@example.org"]).await, ["550 5.2.4"]);
    nothing_was_written(&test_store);
}

/// Opens a server where team@example.org is ann and so many members elsewhere.
async fn with_team_elsewhere(members: usize) -> TestStore {
    let elsewhere: Vec<String> = (0..members).map(|n| format!("u{n}@elsewhere.example")).collect();
    let members: Vec<&str> = ["ann@example.org"].into_iter().chain(elsewhere.iter().map(String::as_str)).collect();
    with_aliases(&[("team@example.org", &members)]).await
}

/// Accepts a message for so many tags of the team, and for bob.
async fn accept_for_tags(test_store: &TestStore, tags: usize, relaying: Relaying) -> Taken {
    let tags: Vec<String> = (0..tags).map(|n| format!("team+{n}@example.org")).collect();
    let recipients: Vec<&str> = tags.iter().map(String::as_str).chain(["bob@example.org"]).collect();
    let incoming = Incoming { relaying, ..test_store.incoming(&recipients, &mail("Hi", ".")) };
    test_store.message_store.accept(incoming).await.unwrap()
}

#[tokio::test]
async fn a_message_of_a_stranger_reaches_few_addresses() {
    let test_store = with_team_elsewhere(599).await;
    let taken = accept_for_tags(&test_store, 100, Relaying::Denied).await;
    assert_eq!((taken.delivered.len(), taken.refused.len()), (3, 98), "two tags and bob");
    let refusal = &taken.refused[0];
    assert_eq!(refusal.recipient.as_str(), "team+2@example.org");
    assert_eq!((refusal.reply.code, refusal.reply.enhanced.unwrap().to_string().as_str()), (452, "4.5.3"));
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 599, "one copy each");
    assert_eq!(test_store.number("SELECT count(*) FROM drop_feed"), 3, "ann for each tag, and bob");
    assert_eq!((held(&test_store, &ann()).await, held(&test_store, &bob()).await), (1, 1));
}

#[tokio::test]
async fn a_message_of_an_author_reaches_more_addresses() {
    let test_store = with_team_elsewhere(999).await;
    let taken = accept_for_tags(&test_store, 7, Relaying::Allowed).await;
    let refused: Vec<_> = taken.refused.iter().map(|refusal| refusal.recipient.as_str()).collect();
    assert_eq!(refused, ["team+5@example.org", "team+6@example.org"]);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 5 * 999);
}

#[tokio::test]
async fn recipients_are_checked_with_the_same_limits() {
    let test_store = with_team_elsewhere(599).await;
    let mut expanded = Expanded::none(Relaying::Denied);
    let mut check = async |recipient: &str| {
        let recipient = address(recipient);
        let checked = test_store.message_store.check_recipient(&recipient, 0, Relaying::Denied, &mut expanded);
        checked.await.unwrap()
    };
    assert_eq!(check("team+0@example.org").await, RecipientCheck::Local);
    assert_eq!(check("team+1@example.org").await, RecipientCheck::Local);
    let RecipientCheck::Refused(reply) = check("team+2@example.org").await else { panic!("accepted") };
    assert_eq!((reply.code, reply.enhanced.unwrap().to_string().as_str()), (452, "4.5.3"));
    assert_eq!(check("bob@example.org").await, RecipientCheck::Local, "no alias");
}

#[tokio::test]
async fn aliases_are_listed_as_they_were_put() {
    let test_store =
        with_aliases(&[("b@example.org", &["ann@example.org"]), ("a@example.org", &["bob@example.org"])]).await;
    let changed = alias("b@example.org", &["bob@example.org", "Ann@elsewhere.example"]);
    test_store.message_store.put_alias(&changed).await.unwrap();
    let all = test_store.message_store.aliases_after(None, 10).await.unwrap().unwrap();
    assert_eq!(all, [alias("a@example.org", &["bob@example.org"]), changed.clone()]);
    let second = test_store.message_store.aliases_after(Some(&all[0].address), 10).await.unwrap().unwrap();
    assert_eq!(second, [changed]);
}

#[tokio::test]
async fn a_next_server_can_read_the_alias_of_a_member() {
    let team: &[&str] = &["a@far.example"];
    let test_store = with_aliases(&[("team@example.org", team), ("\u{e9}quipe@example.org", team)]).await;
    accept(&test_store, &["team+x=1@example.org", "\u{e9}quipe@example.org"]).await.unwrap();
    let database = test_store.database();
    let mut statement = database.prepare("SELECT orcpt FROM drop_queue_recipients ORDER BY position").unwrap();
    let orcpt: Vec<Option<String>> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(orcpt, [Some("rfc822;team+2Bx+3D1@example.org".to_owned()), None], "xtext, and nothing outside ASCII");
}
