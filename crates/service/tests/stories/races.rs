//! Races: the state changes between a check and the action that relies on it.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use mailapi_model::{
    Clock, DkimAlgorithm, EmailAddress, Entropy, Grants, Permission, Secret, SecretText, Timestamp, TokenKind,
};
use mailapi_service::auth::CredentialsError;
use mailapi_service::domains::DomainError;
use mailapi_service::permissions::PermissionError;
use mailapi_service::tokens::{CreateToken, TokenError};
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_store::TokenFilter;
use mailapi_testkit::{PASSWORD, SeededEntropy, TestApp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::{HERE, parts, with};

const ANN: &str = "ann@example.org";
const NEW: &str = "another good one";

/// `doveadm pw -s SSHA512 -p secret`
const IMPORTED: &str =
    "{SSHA512}dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk=";

/// Longer than any operation takes, so that a blocked story fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A point where an operation waits for the test.
struct Gate {
    reached: UnboundedSender<()>,
    opened: Mutex<mpsc::Receiver<()>>,
}

/// The test's side of a gate. Dropping it opens the gate permanently.
struct Keeper {
    reached: UnboundedReceiver<()>,
    open: mpsc::Sender<()>,
}

fn gate() -> (Gate, Keeper) {
    let ((reached, arrived), (open, opened)) = (unbounded_channel(), mpsc::channel());
    (Gate { reached, opened: Mutex::new(opened) }, Keeper { reached: arrived, open })
}

impl Gate {
    fn pass(&self) {
        if self.reached.send(()).is_ok() {
            let _ = self.opened.lock().unwrap().recv();
        }
    }
}

impl Keeper {
    async fn reached(&mut self) {
        timeout(PATIENCE, self.reached.recv()).await.expect("the operation comes to the gate in time").unwrap();
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

/// Randomness that waits at the gate for each request, such as a salt or a token.
struct GatedEntropy(Gate, SeededEntropy);
impl Entropy for GatedEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        self.0.pass();
        self.1.fill(buffer);
    }
}

/// A clock that waits at the gate for each request.
struct GatedClock(Gate, Arc<dyn Clock>);
impl Clock for GatedClock {
    fn now(&self) -> Timestamp {
        self.0.pass();
        self.1.now()
    }

    fn steady(&self) -> Duration {
        self.1.steady()
    }
}

/// Another node with this clock and randomness.
fn node(app: &TestApp, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Service {
    let settings = Settings { password_rounds: 1000, ..Settings::default() };
    Service::new(Parts { clock, entropy, settings, ..parts(app) })
}

fn that_stops_for_randomness(app: &TestApp) -> (Service, Keeper) {
    let (gate, keeper) = gate();
    (node(app, app.clock.clone(), Arc::new(GatedEntropy(gate, SeededEntropy::new(5)))), keeper)
}

fn that_stops_for_the_time(app: &TestApp) -> (Service, Keeper) {
    let (gate, keeper) = gate();
    (node(app, Arc::new(GatedClock(gate, app.clock.clone())), Arc::new(SeededEntropy::new(6))), keeper)
}

fn secret(text: &str) -> SecretText {
    Secret::new(text.to_owned())
}

fn ann() -> EmailAddress {
    ANN.parse().unwrap()
}

async fn app_with_ann() -> (TestApp, Caller) {
    let app = TestApp::start().await;
    app.mailbox(ANN, None).await;
    (app, with(Grants::admin_token()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_login_during_a_password_change_or_disabling_is_refused() {
    let (app, admin) = app_with_ann().await;
    for disabled in [false, true] {
        let (service, mut keeper) = that_stops_for_randomness(&app);
        let password = secret(if disabled { NEW } else { PASSWORD });
        let login = tokio::spawn(async move { service.login(ANN, &password, HERE).await });
        // The password was verified; the session is not stored yet.
        keeper.reached().await;
        match disabled {
            false => drop(app.service.reset_password(&admin, &ann(), Some(secret(NEW))).await.unwrap()),
            true => drop(app.service.disable_user(&admin, &ann()).await.unwrap()),
        }
        keeper.open();
        assert!(matches!(login.await.unwrap(), Err(CredentialsError::Refused)), "disabled: {disabled}");
    }
    app.service.enable_user(&admin, &ann()).await.unwrap();
    let session = app.service.login(ANN, &secret(NEW), HERE).await.unwrap();
    app.service.authenticate(&session.value).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_in_with_an_imported_password_does_not_undo_a_reset() {
    let (app, admin) = app_with_ann().await;
    app.store.accounts().set_password_hash(&ann(), &secret(IMPORTED), app.clock.now()).await.unwrap();
    let (service, mut keeper) = that_stops_for_randomness(&app);
    let login = tokio::spawn(async move { service.login(ANN, &secret("secret"), HERE).await });
    // The imported hash was verified; its replacement is not stored yet.
    keeper.reached().await;
    app.service.reset_password(&admin, &ann(), Some(secret(NEW))).await.unwrap();
    keeper.open();
    assert!(matches!(login.await.unwrap(), Err(CredentialsError::Refused)));
    assert!(matches!(app.service.login(ANN, &secret("secret"), HERE).await, Err(CredentialsError::Refused)));
    app.service.login(ANN, &secret(NEW), HERE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_log_ins_with_an_imported_password_both_get_in() {
    let (app, _) = app_with_ann().await;
    app.store.accounts().set_password_hash(&ann(), &secret(IMPORTED), app.clock.now()).await.unwrap();
    let (service, mut keeper) = that_stops_for_randomness(&app);
    let slow = tokio::spawn(async move { service.login(ANN, &secret("secret"), HERE).await });
    keeper.reached().await;
    let fast = app.service.login(ANN, &secret("secret"), HERE).await.unwrap();
    drop(keeper);
    let slow = slow.await.unwrap().unwrap();
    for session in [slow, fast] {
        app.service.authenticate(&session.value).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mailbox_deleted_meanwhile_gets_no_token_or_permission() {
    let (app, admin) = app_with_ann().await;
    let (service, mut keeper) = that_stops_for_randomness(&app);
    let new = CreateToken { name: "x".into(), kind: TokenKind::User, email: Some(ann()), expires_at: None };
    let create = tokio::spawn(async move { service.create_token(&Caller::operator(), new).await });
    keeper.reached().await;
    app.service.delete_user(&admin, &ann()).await.unwrap();
    keeper.open();
    assert!(matches!(create.await.unwrap(), Err(TokenError::UserNotFound)));
    assert_eq!(
        app.store.tokens().list(&TokenFilter { email: Some(ann()) }, Default::default()).await.unwrap().total,
        0
    );

    app.mailbox(ANN, None).await;
    let (service, mut keeper) = that_stops_for_the_time(&app);
    let grant = tokio::spawn(async move {
        service.grant_permission(&Caller::operator(), &ann(), Permission::ViewStats, &ann().domain()).await
    });
    keeper.reached().await;
    app.service.delete_user(&admin, &ann()).await.unwrap();
    keeper.open();
    assert!(matches!(grant.await.unwrap(), Err(PermissionError::UserNotFound)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_domain_deleted_meanwhile_gets_no_permission_or_key() {
    let (app, admin) = app_with_ann().await;
    let team = || "team.example".parse().unwrap();
    app.domain("team.example").await;
    let (service, mut keeper) = that_stops_for_the_time(&app);
    let grant = tokio::spawn(async move {
        service.grant_permission(&Caller::operator(), &ann(), Permission::ViewStats, &team()).await
    });
    keeper.reached().await;
    app.service.delete_domain(&admin, &team(), false).await.unwrap();
    keeper.open();
    assert!(matches!(grant.await.unwrap(), Err(PermissionError::DomainNotFound)));

    app.domain("team.example").await;
    let (service, mut keeper) = that_stops_for_the_time(&app);
    let rotate =
        tokio::spawn(async move { service.rotate_dkim(&Caller::operator(), &team(), DkimAlgorithm::Ed25519).await });
    keeper.reached().await;
    app.service.delete_domain(&admin, &team(), false).await.unwrap();
    drop(keeper);
    assert!(matches!(rotate.await.unwrap(), Err(DomainError::NotFound)));
}
