//! Two concurrent operations on one name. Afterwards accounts, mail server and mail agree, and no owner reads mail of
//! an earlier owner of the address.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Backend, Provisioning, ProvisioningError};
use mailapi_model::{
    AccountChange, Clock as _, DomainName, EmailAddress, NewDomain, Permission, Quota, Secret, SecretText,
};
use mailapi_service::auth::SignUp;
use mailapi_service::domains::DomainChange;
use mailapi_service::users::{CreateUser, UpdateUser};
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_testkit::{PASSWORD, TestApp};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::HERE;

/// Longer than two operations take on a busy machine.
const ENOUGH: Duration = Duration::from_secs(60);
/// How long to wait until an operation stops at the gate; one that does not stop has long finished.
const STOPS: Duration = Duration::from_secs(2);
/// How long the second operation may take meanwhile. One that waits for its turn takes this long.
const WAITS: Duration = Duration::from_millis(40);
const EARLIER: &str = "the earlier owner";
const QUOTAS: [u64; 2] = [10_485_760, 20_971_520];

/// An operation on one address, or on its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
    ChangeQuota,
    Purge,
    Disable,
    Enable,
    ResetPassword,
    Grant,
    SignUp,
    AddDomain,
    Approve,
    UpdateDomain,
    ForceDeleteDomain,
    DeleteDomain,
}

use Operation::{
    AddDomain, Approve, ChangeQuota, Create, Delete, DeleteDomain, Disable, Enable, ForceDeleteDomain, Grant, Purge,
    ResetPassword, UpdateDomain,
};

const ALL: [Operation; 14] = [
    Create,
    Delete,
    ChangeQuota,
    Purge,
    Disable,
    Enable,
    ResetPassword,
    Grant,
    Operation::SignUp,
    AddDomain,
    Approve,
    UpdateDomain,
    ForceDeleteDomain,
    DeleteDomain,
];

/// The state before the two operations begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An address with mail.
    Owner,
    /// A domain without the address.
    Domain,
    /// A signed-up domain with the address.
    Pending,
    Nothing,
}

const BEFORE: [Before; 4] = [Before::Owner, Before::Domain, Before::Pending, Before::Nothing];

struct Name {
    domain: DomainName,
    address: EmailAddress,
}

impl Name {
    fn new(number: usize) -> Self {
        let domain = format!("n{number}.example");
        Self { address: format!("ann@{domain}").parse().unwrap(), domain: domain.parse().unwrap() }
    }
}

fn password() -> SecretText {
    Secret::new(PASSWORD.to_owned())
}

fn new_user(name: &Name, called: &str) -> CreateUser {
    CreateUser { email: name.address.clone(), password: password(), name: called.to_owned(), quota_bytes: None }
}

/// Runs it and ignores the result. `turn` is the operation's position.
async fn perform(service: &Service, operation: Operation, name: &Name, turn: usize) {
    let (admin, address, domain) = (Caller::operator(), &name.address, &name.domain);
    let called = format!("made by {turn}");
    match operation {
        Create => drop(service.create_user(&admin, new_user(name, &called)).await),
        Delete => drop(service.delete_user(&admin, address).await),
        ChangeQuota => {
            let record = AccountChange { quota_bytes: Some(Some(QUOTAS[turn])), ..AccountChange::default() };
            drop(service.update_user(&admin, address, UpdateUser { record, password: None }).await);
        }
        Purge => drop(service.purge_user(&admin, address).await),
        Disable => drop(service.disable_user(&admin, address).await),
        Enable => drop(service.enable_user(&admin, address).await),
        ResetPassword => drop(service.reset_password(&admin, address, Some(password())).await),
        Grant => drop(service.grant_permission(&admin, address, Permission::ViewStats, domain).await),
        Operation::SignUp => {
            let (email, domain) = (address.clone(), domain.clone());
            drop(service.sign_up(SignUp { domain, email, password: password(), name: called }, HERE).await);
        }
        AddDomain => drop(service.create_domain(&admin, domain.clone(), None).await),
        Approve => drop(service.approve_domain(&admin, domain).await),
        UpdateDomain => {
            let change = DomainChange { active: Some(true), description: Some(Some(called)) };
            drop(service.update_domain(&admin, domain, change).await);
        }
        ForceDeleteDomain => drop(service.delete_domain(&admin, domain, true).await),
        DeleteDomain => drop(service.delete_domain(&admin, domain, false).await),
    }
}

/// A server, and a second process beside it.
struct Pair {
    app: TestApp,
    beside: Service,
}

impl Pair {
    async fn start() -> Self {
        let app = TestApp::start_with(|settings| settings.service = brief(settings.service.clone())).await;
        let beside = app.beside(brief(Settings::default())).await;
        Self { app, beside }
    }

    async fn begin(&self, before: Before, name: &Name) {
        let service = &self.app.service;
        match before {
            Before::Nothing => {}
            Before::Pending => {
                let (email, domain) = (name.address.clone(), name.domain.clone());
                let request = SignUp { domain, email, password: password(), name: EARLIER.into() };
                service.sign_up(request, HERE).await.unwrap();
            }
            Before::Domain | Before::Owner => self.domain(name).await,
        }
        if before == Before::Owner {
            service.create_user(&Caller::operator(), new_user(name, EARLIER)).await.unwrap();
            let address = name.address.as_str();
            self.app.deliver("eve@far.example", address, "Subject: For the earlier owner\n\nSecret\n").await;
        }
    }

    /// A domain without a DKIM key, because making one is slow.
    async fn domain(&self, name: &Name) {
        let (creator_email, description) = (None, None);
        let created_at = self.app.clock.now();
        let new = NewDomain { name: name.domain.clone(), active: true, description, creator_email, created_at };
        self.app.store.domains().insert(&new, None).await.unwrap();
        self.app.mail_server.backend().provisioning.put_domain(&name.domain).await.unwrap();
    }

    /// The domains and mailboxes that the mail server manages itself.
    async fn known(&self) -> Option<(HashSet<DomainName>, HashSet<EmailAddress>)> {
        let provisioning = self.app.mail_server.backend().provisioning;
        let domains = provisioning.domains().await.unwrap()?.into_iter().collect();
        let mailboxes = provisioning.mailboxes_after(None, 1000).await.unwrap()?;
        Some((domains, mailboxes.into_iter().map(|known| known.address).collect()))
    }

    async fn held(&self, address: &EmailAddress) -> Option<Quota> {
        self.app.mail_server.backend().mailboxes.quota(address).await.ok()
    }

    /// The present inconsistencies, if any.
    async fn wrong(&self, name: &Name) -> Option<String> {
        let account = self.app.store.accounts().get(&name.address).await.unwrap();
        let domain = self.app.store.domains().get(&name.domain).await.unwrap();
        if let Some((domains, mailboxes)) = self.known().await {
            let approved = domain.as_ref().is_some_and(|domain| domain.approved);
            if domains.contains(&name.domain) != approved {
                return Some(format!("approved: {approved}, and the mail server says the opposite"));
            }
            if mailboxes.contains(&name.address) != account.is_some() {
                return Some(format!("an account: {}, and the mail server says the opposite", account.is_some()));
            }
        }
        let account = account?;
        let Some(held) = self.held(&name.address).await else { return Some("no mailbox can be opened".to_owned()) };
        if held.limit_bytes != account.quota_bytes {
            return Some(format!(
                "{:?} octets by the account, {:?} by the mailbox",
                account.quota_bytes, held.limit_bytes
            ));
        }
        (account.name != EARLIER && held.messages > 0).then(|| "mail of the earlier owner".to_owned())
    }

    /// The same for the next owner of the address.
    async fn wrong_for_the_next(&self, name: &Name) -> Option<String> {
        let (service, admin) = (&self.app.service, Caller::operator());
        if self.app.store.domains().get(&name.domain).await.unwrap().is_none() {
            self.domain(name).await;
        }
        if self.app.store.accounts().get(&name.address).await.unwrap().is_none() {
            service.create_user(&admin, new_user(name, "the next owner")).await.unwrap();
            if let Some(wrong) = self.wrong(name).await {
                return Some(format!("the next owner: {wrong}"));
            }
        }
        service.delete_domain(&admin, &name.domain, true).await.unwrap();
        self.wrong(name).await.map(|wrong| format!("after the end: {wrong}"))
    }

    async fn round(&self, operations: [Operation; 2], before: Before, name: &Name) -> Option<String> {
        self.begin(before, name).await;
        let both = async {
            tokio::join!(
                perform(&self.app.service, operations[0], name, 0),
                perform(&self.beside, operations[1], name, 1)
            )
        };
        timeout(ENOUGH, both).await.expect("both come to an end");
        match self.wrong(name).await {
            Some(wrong) => Some(wrong),
            None => self.wrong_for_the_next(name).await,
        }
    }
}

/// Stops its first change of the mail server, before or after it, until the test releases it.
struct Stopping {
    behind: Arc<dyn Provisioning>,
    is_after: bool,
    gate: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
}

impl Stopping {
    async fn stop_if(&self, is_after: bool) {
        let gate = if self.is_after == is_after { self.gate.lock().unwrap().take() } else { None };
        if let Some((reached, opened)) = gate {
            let _ = reached.send(());
            let _ = opened.await;
        }
    }

    async fn around<T>(&self, change: impl Future<Output = T>) -> T {
        self.stop_if(false).await;
        let changed = change.await;
        self.stop_if(true).await;
        changed
    }
}

#[async_trait]
impl Provisioning for Stopping {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_domain(domain)).await
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_domain(domain)).await
    }

    async fn new_mailbox(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.new_mailbox(mailbox, quota)).await
    }

    async fn set_quota(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.set_quota(mailbox, quota)).await
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_mailbox(mailbox, quota)).await
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_mailbox(mailbox)).await
    }

    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.around(self.behind.account_changed(mailbox)).await
    }
}

impl Pair {
    /// A server whose first change of the mail server stops.
    fn stopping(&self, is_after: bool) -> (Service, oneshot::Receiver<()>, oneshot::Sender<()>) {
        let ((reached, was_reached), (open, opened)) = (oneshot::channel(), oneshot::channel());
        let backend = self.app.mail_server.backend();
        let gate = Mutex::new(Some((reached, opened)));
        let provisioning = Arc::new(Stopping { behind: backend.provisioning.clone(), is_after, gate });
        let service = Service::new(Parts {
            store: self.app.store.clone(),
            backend: Backend { provisioning, ..backend },
            dns: self.app.dns.clone(),
            clock: self.app.clock.clone(),
            entropy: self.app.service.entropy().clone(),
            spool: self.app.service.spool().clone(),
            settings: brief(Settings::default()),
        });
        (service, was_reached, open)
    }

    /// The second operation starts while the first one changes the mail server. It either waits, or has finished
    /// before.
    async fn round_within(
        &self,
        operations: [Operation; 2],
        before: Before,
        is_after: bool,
        name: &Name,
    ) -> Option<String> {
        self.begin(before, name).await;
        let (stopping, reached, open) = self.stopping(is_after);
        let both = async {
            let first = perform(&stopping, operations[0], name, 0);
            let second = async {
                // An operation that changes nothing does not stop; the gate is then dropped with its server.
                let stops = timeout(STOPS, reached).await.is_ok_and(|reached| reached.is_ok());
                let mut second = pin!(perform(&self.beside, operations[1], name, 1));
                if stops && timeout(WAITS, &mut second).await.is_ok() {
                    let _ = open.send(());
                    return;
                }
                let _ = open.send(());
                second.await;
            };
            tokio::join!(first, second)
        };
        timeout(ENOUGH, both).await.expect("both come to an end");
        match self.wrong(name).await {
            Some(wrong) => Some(wrong),
            None => self.wrong_for_the_next(name).await,
        }
    }
}

fn brief(settings: Settings) -> Settings {
    Settings { password_rounds: 1000, signups_per_hour: u32::MAX, ..settings }
}

fn rounds() -> usize {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is no configuration of the product")]
    let rounds = std::env::var("MAILAPI_TEST_ROUNDS").ok();
    rounds.map_or(1, |rounds| rounds.parse().expect("a number of rounds"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_two_operations_at_once_leave_all_in_agreement() {
    let pair = Arc::new(Pair::start().await);
    let (mut number, mut wrong) = (0, Vec::new());
    for (place, first) in ALL.into_iter().enumerate() {
        for second in &ALL[place..] {
            for round in 0..rounds() {
                number += 1;
                let before = BEFORE[(round + number) % BEFORE.len()];
                let found = pair.round([first, *second], before, &Name::new(number)).await;
                wrong.extend(found.map(|found| format!("{first:?} beside {second:?} on {before:?}: {found}")));
            }
        }
    }

    assert!(wrong.is_empty(), "{} of {number}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_within_another_leaves_all_in_agreement() {
    const STOPPED: [(Operation, Before); 8] = [
        (Create, Before::Domain),
        (Delete, Before::Owner),
        (ChangeQuota, Before::Owner),
        (Operation::SignUp, Before::Nothing),
        (AddDomain, Before::Nothing),
        (Approve, Before::Pending),
        (ForceDeleteDomain, Before::Owner),
        (DeleteDomain, Before::Domain),
    ];
    const BESIDE: [Operation; 8] =
        [Create, Delete, ChangeQuota, Operation::SignUp, AddDomain, Approve, ForceDeleteDomain, DeleteDomain];
    let pair = Pair::start().await;
    let (mut number, mut wrong) = (0, Vec::new());
    for (first, before) in STOPPED {
        for (second, is_after) in BESIDE.into_iter().flat_map(|second| [(second, false), (second, true)]) {
            number += 1;
            let found = pair.round_within([first, second], before, is_after, &Name::new(number)).await;
            wrong.extend(found.map(|found| format!("{second:?} within {first:?} (after: {is_after}): {found}")));
        }
    }
    assert!(wrong.is_empty(), "{} of {number}:\n{}", wrong.len(), wrong.join("\n"));
}
