//! Pairs of concurrent operations on one name. Afterwards accounts, mail server and mail agree, and no owner can
//! read mail of an earlier owner of the address.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use mailapi_backend::{Backend, ProvisioningError};
use mailapi_model::{
    AccountChange, AliasChange, Clock as _, DomainName, EmailAddress, LoginProtocol, NewDomain, Permission, Quota,
    Secret, SecretText, Visitor,
};
use mailapi_service::aliases::CreateAlias;
use mailapi_service::auth::SignUp;
use mailapi_service::domains::DomainChange;
use mailapi_service::users::{CreateUser, UpdateUser};
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_testkit::{HookedProvisioning, PASSWORD, ProvisioningHook, TestApp};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::parts;

/// Longer than two operations take on a busy machine.
const ENOUGH: Duration = Duration::from_secs(60);
/// Time to wait until an operation stops at the gate; one that does not stop has finished long before.
const STOPS: Duration = Duration::from_secs(2);
/// Time for the second operation meanwhile; one that waits for the lock uses it up.
const WAITS: Duration = Duration::from_millis(40);
/// Attempts to prepare a round.
const MOST_ATTEMPTS: usize = 5;
const EARLIER: &str = "the earlier owner";
const QUOTAS: [u64; 2] = [10_485_760, 20_971_520];

/// Declares the operations and the list of all of them.
macro_rules! operations {
    ($($operation:ident),+ $(,)?) => {
        /// An operation on one address, or on its domain.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Operation {
            $($operation),+
        }

        const ALL: &[Operation] = &[$(Operation::$operation),+];
    };
}

operations!(
    Create,
    Delete,
    ChangeQuota,
    Purge,
    Disable,
    Enable,
    ResetPassword,
    Grant,
    SignUpDomain,
    AddDomain,
    Approve,
    UpdateDomain,
    ForceDeleteDomain,
    DeleteDomain,
    CreateAnAlias,
    ChangeAlias,
    DeleteAlias,
);

use Operation::{
    AddDomain, Approve, ChangeAlias, ChangeQuota, Create, CreateAnAlias, Delete, DeleteAlias, DeleteDomain, Disable,
    Enable, ForceDeleteDomain, Grant, Purge, ResetPassword, SignUpDomain, UpdateDomain,
};

/// The state before the two operations begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// An address with mail.
    Owner,
    /// A domain without the address.
    Domain,
    /// An alias with the address.
    Alias,
    /// A signed-up domain with the address.
    Pending,
    Nothing,
}

const BEFORE: [Before; 5] = [Before::Owner, Before::Domain, Before::Pending, Before::Nothing, Before::Alias];

pub(crate) struct Name {
    pub(crate) domain: DomainName,
    pub(crate) address: EmailAddress,
    /// The client of the sign-up. Each name has its own, since the number of pending domains per client is limited.
    client: Visitor,
}

impl Name {
    pub(crate) fn new(number: usize) -> Self {
        let domain = format!("n{number}.example");
        let network = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + u32::try_from(number).unwrap());
        let client = Visitor { protocol: LoginProtocol::Http, address: network.into() };
        Self { address: format!("ann@{domain}").parse().unwrap(), domain: domain.parse().unwrap(), client }
    }

    /// The member of an alias that the operation with this position names.
    fn member(&self, turn: usize) -> EmailAddress {
        format!("member{turn}@{}", self.domain).parse().unwrap()
    }

    /// An address that sorts directly before this one in the test.
    fn just_before(&self) -> EmailAddress {
        let (shorter, _) = self.address.as_str().rsplit_once('e').unwrap();
        shorter.parse().unwrap()
    }
}

pub(crate) fn password() -> SecretText {
    Secret::new(PASSWORD.to_owned())
}

pub(crate) fn new_user(name: &Name, called: &str) -> CreateUser {
    CreateUser { email: name.address.clone(), password: password().into(), name: called.to_owned(), quota_bytes: None }
}

/// Whether the operation ran or was rejected. One that found the server unavailable did not compete.
fn ran<T, E: Debug>(outcome: Result<T, E>) -> bool {
    outcome.err().is_none_or(|error| !format!("{error:?}").starts_with("Unavailable"))
}

/// Performs the operation and returns whether it [`ran`]. `turn` is its position.
async fn perform(service: &Service, operation: Operation, name: &Name, turn: usize) -> bool {
    let (admin, address, domain) = (Caller::operator(), &name.address, &name.domain);
    let called = format!("made by {turn}");
    match operation {
        Create => ran(service.create_user(&admin, new_user(name, &called)).await),
        Delete => ran(service.delete_user(&admin, address).await),
        ChangeQuota => {
            let record = AccountChange { quota_bytes: Some(Some(QUOTAS[turn])), ..AccountChange::default() };
            ran(service.update_user(&admin, address, UpdateUser { record, password: None }).await)
        }
        Purge => ran(service.purge_user(&admin, address).await),
        Disable => ran(service.disable_user(&admin, address).await),
        Enable => ran(service.enable_user(&admin, address).await),
        ResetPassword => ran(service.reset_password(&admin, address, Some(password())).await),
        Grant => ran(service.grant_permission(&admin, address, Permission::ViewStats, domain).await),
        SignUpDomain => {
            let (email, domain) = (address.clone(), domain.clone());
            ran(service.sign_up(SignUp { domain, email, password: password(), name: called }, name.client).await)
        }
        AddDomain => ran(service.create_domain(&admin, domain.clone(), None).await),
        Approve => ran(service.approve_domain(&admin, domain).await),
        UpdateDomain => {
            let change = DomainChange { active: Some(true), description: Some(Some(called)) };
            ran(service.update_domain(&admin, domain, change).await)
        }
        ForceDeleteDomain => ran(service.delete_domain(&admin, domain, true).await),
        DeleteDomain => ran(service.delete_domain(&admin, domain, false).await),
        CreateAnAlias => {
            let (address, members) = (address.clone(), vec![name.member(turn)]);
            ran(service.create_alias(&admin, CreateAlias { address, members, senders: Vec::new(), active: true }).await)
        }
        ChangeAlias => {
            let change = AliasChange { members: Some(vec![name.member(turn)]), senders: None, active: Some(turn == 0) };
            ran(service.update_alias(&admin, address, change).await)
        }
        DeleteAlias => ran(service.delete_alias(&admin, address).await),
    }
}

/// The result of a round.
struct Outcome {
    wrong: Option<String>,
    both_ran: bool,
}

/// A server, and a second process on the same data.
pub(crate) struct Pair {
    pub(crate) app: TestApp,
    beside: Service,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let app = TestApp::start_with(|settings| settings.service = brief(settings.service.clone())).await;
        let beside = app.beside(brief(Settings::default())).await;
        Self { app, beside }
    }

    pub(crate) async fn begin(&self, before: Before, name: &Name) {
        let service = &self.app.service;
        match before {
            Before::Nothing => {}
            Before::Pending => {
                let (email, domain) = (name.address.clone(), name.domain.clone());
                let request = SignUp { domain, email, password: password(), name: EARLIER.into() };
                service.sign_up(request, name.client).await.unwrap();
            }
            Before::Domain | Before::Owner | Before::Alias => self.domain(name).await,
        }
        if before == Before::Alias {
            // A busy server can be unavailable for a moment.
            let mut attempts = 1..=MOST_ATTEMPTS;
            while !perform(service, CreateAnAlias, name, 0).await {
                assert!(attempts.next().is_some(), "the alias is never created");
            }
        }
        if before == Before::Owner {
            service.create_user(&Caller::operator(), new_user(name, EARLIER)).await.unwrap();
            let message = b"From: eve@far.example\r\nSubject: For the earlier owner\r\n\r\nSecret\r\n";
            self.app.mail_server.place(&name.address, message).await;
        }
    }

    /// Creates a domain without a DKIM key, since generating one is slow.
    pub(crate) async fn domain(&self, name: &Name) {
        let (creator_email, description) = (None, None);
        let created_at = self.app.clock.now();
        let new = NewDomain { name: name.domain.clone(), active: true, description, creator_email, created_at };
        self.app.store.domains().insert(&new, None).await.unwrap();
        self.app.mail_server.backend().provisioning.put_domain(&name.domain).await.unwrap();
    }

    /// Whether the mail server has the domain and the mailbox, if it manages them itself.
    async fn known(&self, name: &Name) -> Option<(bool, bool)> {
        let provisioning = self.app.mail_server.backend().provisioning;
        let domains = provisioning.domains().await.unwrap()?;
        let mailboxes = provisioning.mailboxes_after(Some(&name.just_before()), 1).await.unwrap()?;
        let has_mailbox = mailboxes.first().is_some_and(|known| known.address == name.address);
        Some((domains.contains(&name.domain), has_mailbox))
    }

    /// Domains and mailboxes left at the mail server after all names were deleted.
    async fn left_over(&self) -> Option<String> {
        let provisioning = self.app.mail_server.backend().provisioning;
        let domains = provisioning.domains().await.unwrap()?;
        let mailboxes = provisioning.mailboxes_after(None, 1000).await.unwrap()?;
        let aliases = provisioning.aliases_after(None, 1000).await.unwrap()?;
        let is_clean = domains.is_empty() && mailboxes.is_empty() && aliases.is_empty();
        (!is_clean).then(|| format!("left over: {domains:?} {mailboxes:?} {aliases:?}"))
    }

    async fn held(&self, address: &EmailAddress) -> Option<Quota> {
        self.app.mail_server.backend().mailboxes.quota(address).await.ok()
    }

    /// The inconsistencies, if any.
    pub(crate) async fn wrong(&self, name: &Name) -> Option<String> {
        let account = self.app.store.accounts().get(&name.address).await.unwrap();
        let domain = self.app.store.domains().get(&name.domain).await.unwrap();
        if let Some((has_domain, has_mailbox)) = self.known(name).await {
            let approved = domain.as_ref().is_some_and(|domain| domain.approved);
            if has_domain != approved {
                return Some(format!("approved: {approved}, and the mail server says the opposite"));
            }
            if has_mailbox != account.is_some() {
                return Some(format!("an account: {}, and the mail server says the opposite", account.is_some()));
            }
        }
        if let Some(wrong) = self.wrong_alias(name, account.is_some()).await {
            return Some(wrong);
        }
        let account = account?;
        let Some(held) = self.held(&name.address).await else { return Some("no mailbox can be opened".to_owned()) };
        if held.limit_bytes != account.quota_bytes {
            return Some(format!(
                "{:?} bytes by the account, {:?} by the mailbox",
                account.quota_bytes, held.limit_bytes
            ));
        }
        (account.name != EARLIER && held.messages > 0).then(|| "mail of the earlier owner".to_owned())
    }

    /// The inconsistencies of the alias, if any.
    async fn wrong_alias(&self, name: &Name, is_account: bool) -> Option<String> {
        let alias = self.app.store.aliases().get(&name.address).await.unwrap();
        if alias.is_some() && is_account {
            return Some("both an account and an alias".to_owned());
        }
        let provisioning = self.app.mail_server.backend().provisioning;
        let known = provisioning.aliases_after(Some(&name.just_before()), 1).await.unwrap()?;
        let known = known.into_iter().find(|known| known.address == name.address);
        (known != alias).then(|| format!("{alias:?}, and the mail server has {known:?}"))
    }

    /// The inconsistencies for the next owner of the address, if any.
    async fn wrong_for_the_next(&self, name: &Name) -> Option<String> {
        let (service, admin) = (&self.app.service, Caller::operator());
        if self.app.store.domains().get(&name.domain).await.unwrap().is_none() {
            self.domain(name).await;
        }
        let _ = service.delete_alias(&admin, &name.address).await;
        if self.app.store.accounts().get(&name.address).await.unwrap().is_none() {
            service.create_user(&admin, new_user(name, "the next owner")).await.unwrap();
            if let Some(wrong) = self.wrong(name).await {
                return Some(format!("the next owner: {wrong}"));
            }
        }
        service.delete_domain(&admin, &name.domain, true).await.unwrap();
        self.wrong(name).await.map(|wrong| format!("after the end: {wrong}"))
    }

    async fn round(&self, operations: [Operation; 2], before: Before, name: &Name) -> Outcome {
        self.begin(before, name).await;
        let both = async {
            tokio::join!(
                perform(&self.app.service, operations[0], name, 0),
                perform(&self.beside, operations[1], name, 1)
            )
        };
        let (first, second) = timeout(ENOUGH, both).await.expect("both come to an end");
        let wrong = match self.wrong(name).await {
            Some(wrong) => Some(wrong),
            None => self.wrong_for_the_next(name).await,
        };
        let wrong = wrong.map(|wrong| format!("{:?} beside {:?} on {before:?}: {wrong}", operations[0], operations[1]));
        Outcome { wrong, both_ran: first && second }
    }
}

/// Stops one change of the mail server, before or after it is made, until the test releases it.
struct Stopping {
    is_after: bool,
    /// Number of changes to let pass.
    passing: AtomicUsize,
    gate: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
}

impl Stopping {
    async fn stop(&self) {
        if self.passing.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        let gate = self.gate.lock().unwrap().take();
        if let Some((reached, opened)) = gate {
            let _ = reached.send(());
            let _ = opened.await;
        }
    }
}

#[async_trait]
impl ProvisioningHook for Stopping {
    async fn before(&self) -> Result<(), ProvisioningError> {
        if !self.is_after {
            self.stop().await;
        }
        Ok(())
    }

    async fn after(&self) {
        if self.is_after {
            self.stop().await;
        }
    }
}

impl Pair {
    /// A server that stops at its first change of the mail server.
    fn stopping(&self, is_after: bool) -> (Service, oneshot::Receiver<()>, oneshot::Sender<()>) {
        self.stopping_after(0, is_after)
    }

    /// A server that lets `passing` changes of the mail server pass, and stops at the next one.
    pub(crate) fn stopping_after(
        &self,
        passing: usize,
        is_after: bool,
    ) -> (Service, oneshot::Receiver<()>, oneshot::Sender<()>) {
        let ((reached, was_reached), (open, opened)) = (oneshot::channel(), oneshot::channel());
        let backend = self.app.mail_server.backend();
        let (gate, passing) = (Mutex::new(Some((reached, opened))), AtomicUsize::new(passing));
        let hook = Stopping { is_after, passing, gate };
        let provisioning = Arc::new(HookedProvisioning { behind: backend.provisioning.clone(), hook });
        (self.with_backend(Backend { provisioning, ..backend }), was_reached, open)
    }

    /// A server with this backend on the same accounts.
    pub(crate) fn with_backend(&self, backend: Backend) -> Service {
        let entropy = self.app.service.entropy().clone();
        let settings = brief(Settings::default());
        Service::new(Parts { backend, entropy, settings, ..parts(&self.app) })
    }

    /// Starts the second operation while the first one changes the mail server. It either waits, or has finished
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
                // An operation without changes does not stop; the gate is then dropped with its server.
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
    number_of_environment("MAILAPI_TEST_ROUNDS").unwrap_or(1)
}

/// Number of parallel rounds. Each has its own name, so they share only locks and pools common to all names.
fn in_flight() -> usize {
    number_of_environment("MAILAPI_TEST_IN_FLIGHT").unwrap_or(12)
}

fn number_of_environment(key: &str) -> Option<usize> {
    #[expect(clippy::disallowed_methods, reason = "the length of a test is not a setting of the server")]
    let number = std::env::var(key).ok();
    number.map(|number| number.parse().expect("a number"))
}

/// The rounds of every pair. Each process starts first in half of them, and each state occurs equally often.
fn all_rounds() -> impl Iterator<Item = ([Operation; 2], Before, Name)> {
    let pairs = ALL
        .iter()
        .copied()
        .enumerate()
        .flat_map(|(place, first)| ALL[place..].iter().map(move |second| [first, *second]));
    let rounds = pairs.flat_map(|pair| (0..rounds()).map(move |round| (pair, round)));
    rounds.enumerate().map(|(number, ([first, second], round))| {
        let pair = if (round / BEFORE.len()).is_multiple_of(2) { [first, second] } else { [second, first] };
        (pair, BEFORE[number % BEFORE.len()], Name::new(number))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_two_operations_at_once_leave_all_in_agreement() {
    let pair = Arc::new(Pair::start().await);
    let rounds = all_rounds().map(|(operations, before, name)| {
        let pair = pair.clone();
        tokio::spawn(async move { pair.round(operations, before, &name).await })
    });
    let outcomes: Vec<_> = stream::iter(rounds).buffer_unordered(in_flight()).map(Result::unwrap).collect().await;
    let without_race = outcomes.iter().filter(|outcome| !outcome.both_ran).count();
    let count = outcomes.len();
    let wrong: Vec<_> =
        outcomes.into_iter().filter_map(|outcome| outcome.wrong).chain(pair.left_over().await).collect();
    #[expect(clippy::print_stdout, reason = "the long proof reports how many rounds it made")]
    {
        println!("{count} rounds, {} wrong, {without_race} without a race", wrong.len());
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(without_race * 100 <= count, "too many operations were unavailable: {without_race} of {count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_within_another_leaves_all_in_agreement() {
    const STOPPED: [(Operation, Before); 11] = [
        (Create, Before::Domain),
        (Delete, Before::Owner),
        (ChangeQuota, Before::Owner),
        (SignUpDomain, Before::Nothing),
        (AddDomain, Before::Nothing),
        (Approve, Before::Pending),
        (ForceDeleteDomain, Before::Owner),
        (DeleteDomain, Before::Domain),
        (CreateAnAlias, Before::Domain),
        (ChangeAlias, Before::Alias),
        (DeleteAlias, Before::Alias),
    ];
    const BESIDE: [Operation; 11] = [
        Create,
        Delete,
        ChangeQuota,
        SignUpDomain,
        AddDomain,
        Approve,
        ForceDeleteDomain,
        DeleteDomain,
        CreateAnAlias,
        ChangeAlias,
        DeleteAlias,
    ];
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
