//! Accounts whose mailbox may contain mail of another owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Backend, ProvisioningError};
use mailapi_model::EmailAddress;
use mailapi_service::auth::SignUp;
use mailapi_service::{Caller, Service};
use mailapi_testkit::{HookedProvisioning, ProvisioningHook};
use tokio::time::timeout;

use crate::HERE;
use crate::names::{Before, Name, Pair, new_user, password};

const ENOUGH: Duration = Duration::from_secs(60);
const LATE: &[u8] = b"From: eve@far.example\r\nSubject: Late\r\n\r\nFor the earlier owner\r\n";

async fn messages(pair: &Pair, address: &EmailAddress) -> u64 {
    pair.app.mail_server.backend().mailboxes.quota(address).await.unwrap().messages
}

fn looks_accounts_up(pair: &Pair) -> bool {
    pair.app.mail_server.backend().provisioning.looks_accounts_up()
}

async fn create(service: &Service, name: &Name) {
    service.create_user(&Caller::operator(), new_user(name, "the next owner")).await.unwrap();
}

/// Stops the deletion after the mail was removed, delivers a message, and lets the deletion finish.
async fn mail_during(pair: &Pair, name: &Name, is_whole_domain: bool) {
    let (stopping, reached, open) = pair.stopping_after(usize::from(is_whole_domain), true);
    let admin = Caller::operator();
    let deletion = async {
        if is_whole_domain {
            stopping.delete_domain(&admin, &name.domain, true).await.unwrap();
        } else {
            stopping.delete_user(&admin, &name.address).await.unwrap();
        }
    };
    let meanwhile = async {
        timeout(ENOUGH, reached).await.unwrap().unwrap();
        let taken = pair.app.mail_server.takes_mail("eve@far.example", &name.address).await;
        // In one file, mailbox and account are deleted together, including mail received until then.
        if looks_accounts_up(pair) {
            assert!(!taken, "mail is refused while its mailbox is deleted");
            // A delivery whose recipient was accepted earlier.
            pair.app.mail_server.place(&name.address, LATE).await;
        }
        open.send(()).unwrap();
    };
    tokio::join!(deletion, meanwhile);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_during_a_deletion_is_not_the_next_owners() {
    let pair = Pair::start().await;
    for (number, is_whole_domain) in [false, true].into_iter().enumerate() {
        let name = Name::new(number);
        pair.begin(Before::Owner, &name).await;
        mail_during(&pair, &name, is_whole_domain).await;
        if is_whole_domain {
            pair.domain(&name).await;
        }
        create(&pair.app.service, &name).await;
        assert_eq!(messages(&pair, &name.address).await, 0, "whole domain: {is_whole_domain}");
        let taken = pair.app.mail_server.takes_mail("eve@far.example", &name.address).await;
        assert!(taken, "the next owner gets mail");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_during_a_deletion_is_not_for_the_next_owner() {
    let pair = Pair::start().await;
    let name = Name::new(0);
    pair.begin(Before::Owner, &name).await;
    mail_during(&pair, &name, true).await;
    let (email, domain) = (name.address.clone(), name.domain.clone());
    let request = SignUp { domain, email, password: password(), name: "the next owner".into() };
    pair.app.service.sign_up(request, HERE).await.unwrap();
    assert_eq!(messages(&pair, &name.address).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_a_crash_interrupted_is_finished() {
    let pair = Pair::start().await;
    let accounts = pair.app.store.accounts();
    for number in 0..2 {
        let name = Name::new(number);
        pair.begin(Before::Owner, &name).await;
        accounts.set_closed(&name.address, true).await.unwrap();
        assert!(accounts.credentials(&name.address).await.unwrap().is_none(), "no login is possible meanwhile");
        if number == 0 {
            pair.app.service.reconcile().await.unwrap();
            assert!(accounts.get(&name.address).await.unwrap().is_none());
        }
        // Without a restart, creating the account again finishes the deletion.
        create(&pair.app.service, &name).await;
        assert!(!accounts.is_closed(&name.address).await.unwrap());
        assert_eq!(messages(&pair, &name.address).await, 0);
    }
    assert!(accounts.closed(None, 10).await.unwrap().is_empty());
}

/// Fails every change while it is switched on.
#[derive(Default)]
struct Busy(Arc<AtomicBool>);

#[async_trait]
impl ProvisioningHook for Busy {
    async fn before(&self) -> Result<(), ProvisioningError> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(ProvisioningError("database is locked".to_owned())),
            false => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_whose_mailbox_cannot_be_made_is_not_made() {
    let pair = Pair::start().await;
    let (name, is_busy) = (Name::new(0), Arc::new(AtomicBool::new(true)));
    let backend = pair.app.mail_server.backend();
    let hook = Busy(is_busy.clone());
    let provisioning = Arc::new(HookedProvisioning { behind: backend.provisioning.clone(), hook });
    let service = pair.with_backend(Backend { provisioning, ..backend });
    pair.domain(&name).await;
    let admin = Caller::operator();
    assert!(service.create_user(&admin, new_user(&name, "ann")).await.is_err());
    assert!(pair.app.store.accounts().get(&name.address).await.unwrap().is_none());
    let new = Name::new(1);
    let request =
        || SignUp { domain: new.domain.clone(), email: new.address.clone(), password: password(), name: "ann".into() };
    assert!(service.sign_up(request(), HERE).await.is_err());
    assert!(pair.app.store.domains().get(&new.domain).await.unwrap().is_none());

    is_busy.store(false, Ordering::SeqCst);
    create(&service, &name).await;
    service.sign_up(request(), HERE).await.unwrap();
    for name in [&name, &new] {
        assert_eq!(pair.wrong(name).await, None);
    }
}
