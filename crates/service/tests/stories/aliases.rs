//! Aliases at the mail server and in the accounts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use mailapi_backend::{Backend, ProvisioningError};
use mailapi_model::{Alias, AliasChange, Clock, EmailAddress};
use mailapi_service::aliases::CreateAlias;
use mailapi_service::{Caller, Parts, Service};
use mailapi_testkit::{HookedProvisioning, ProvisioningHook, TestApp};
use serde_json::json;

use crate::{caller, message, parts};

fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

async fn create(app: &TestApp, name: &str, members: &[&str]) -> Alias {
    let members = members.iter().map(|member| address(member)).collect();
    let new = CreateAlias { address: address(name), members, senders: Vec::new(), active: true };
    app.service.create_alias(&Caller::operator(), new).await.unwrap()
}

/// Returns the aliases of the mail server; `None` if it reads those of the accounts.
async fn known(app: &TestApp) -> Option<Vec<Alias>> {
    app.mail_server.backend().provisioning.aliases_after(None, 100).await.unwrap()
}

async fn held(app: &TestApp, mailbox: &str) -> u64 {
    app.mail_server.backend().mailboxes.quota(&address(mailbox)).await.unwrap().messages
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mail_server_has_the_aliases_of_the_accounts() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let team = create(&app, "team@example.org", &["ann@example.org"]).await;
    let Some(aliases) = known(&app).await else { return };
    assert_eq!(aliases, std::slice::from_ref(&team));
    let off = AliasChange { active: Some(false), ..AliasChange::default() };
    let changed = app.service.update_alias(&Caller::operator(), &team.address, off).await.unwrap();
    assert_eq!(known(&app).await.unwrap(), [changed]);
    app.service.delete_domain(&Caller::operator(), &team.domain(), true).await.unwrap();
    assert_eq!(known(&app).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_repairs_aliases() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let mut all = Vec::new();
    for n in 0..120 {
        all.push(create(&app, &format!("a{n:03}@example.org"), &["ann@example.org"]).await);
    }
    if known(&app).await.is_none() {
        return;
    }
    let provisioning = app.mail_server.backend().provisioning;
    let repair = async |of: &str, alias: Option<&Alias>| provisioning.repair_alias(&address(of), alias).await.unwrap();
    // As after a crash, or with a database that was restored.
    let former = Alias { members: vec![address("bob@example.org")], ..all[60].clone() };
    let stray = Alias { address: address("zoe@example.org"), ..former.clone() };
    repair("a000@example.org", None).await;
    repair("a060@example.org", Some(&former)).await;
    repair("zoe@example.org", Some(&stray)).await;
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 3);
    let mut after = provisioning.aliases_after(None, 1_000).await.unwrap().unwrap();
    after.sort_by(|one, other| one.address.cmp(&other.address));
    assert_eq!(after, all);
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0);
}

/// Fails every change while it is switched on.
struct Broken(Arc<AtomicBool>);

#[async_trait]
impl ProvisioningHook for Broken {
    async fn before(&self) -> Result<(), ProvisioningError> {
        let is_broken = self.0.load(Ordering::SeqCst);
        if is_broken { Err(ProvisioningError("database is locked".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_of_a_deleted_domain_do_not_come_back() {
    let app = TestApp::start().await;
    if known(&app).await.is_none() {
        return;
    }
    // The deletion of the domain could not remove it.
    let left = Alias {
        address: address("info@again.example"),
        members: vec![address("eve@far.example")],
        senders: Vec::new(),
        active: true,
        created_at: app.clock.now(),
    };
    let backend = app.mail_server.backend();
    backend.provisioning.put_alias(&left).await.unwrap();
    let is_broken = Arc::new(AtomicBool::new(true));
    let provisioning =
        Arc::new(HookedProvisioning { behind: backend.provisioning.clone(), hook: Broken(is_broken.clone()) });
    let service = Service::new(Parts { backend: Backend { provisioning, ..backend }, ..parts(&app) });
    let create = async || service.create_domain(&Caller::operator(), left.domain(), None).await;
    assert!(create().await.is_err());
    assert!(app.store.domains().get(&left.domain()).await.unwrap().is_none(), "nothing was created");
    is_broken.store(false, Ordering::SeqCst);
    create().await.unwrap();
    assert_eq!(known(&app).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_alias_is_sent_and_received_by_each_member() {
    let app = TestApp::start().await;
    let token = app.user("ann@example.org").await;
    for member in ["bob@example.org", "cid@example.org"] {
        app.mailbox(member, None).await;
    }
    create(&app, "team@example.org", &["bob@example.org", "cid@example.org"]).await;
    let sent = app.service.send(&caller(&app, &token).await, message("ann@example.org", &["team@example.org"])).await;
    app.settle().await;
    let status = app.get(&token, &format!("/mail/{}/status", sent.unwrap().message_id)).await.expect(200);
    assert_eq!(status["status"], "sent", "{status}");
    assert_eq!((held(&app, "bob@example.org").await, held(&app, "cid@example.org").await), (1, 1));
    while app.service.read_events_once().await.unwrap() {}
    let events = app.get(app.admin(), "/events?after=start&types=message.received").await.expect(200);
    let mailboxes: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|event| &event["data"]["mailbox"]).collect();
    assert_eq!(mailboxes, ["bob@example.org", "cid@example.org"], "{events}");
    let recipients = events["events"].as_array().unwrap().iter().map(|event| &event["data"]["recipient"]);
    assert!(recipients.into_iter().all(|recipient| *recipient == json!({ "email": "team@example.org" })), "{events}");
}
