//! Mailboxes of an external user database: logins, permissions, and changes that are rejected here.

use std::time::Duration;

use mailapi_backend::{Login, LoginError};
use mailapi_model::{
    Clock, DkimAlgorithm, DomainName, EmailAddress, LoginProtocol, Page, Permission, Secret, SecretText, TokenKind,
    TokenValue, Violations, Visitor,
};
use mailapi_service::auth::{AuthenticateError, CredentialsError, SignUp, SignUpError};
use mailapi_service::domains::{DomainChange, DomainError};
use mailapi_service::mail::SendError;
use mailapi_service::tokens::CreateToken;
use mailapi_service::users::{CreateUser, DirectorySynced, UpdateUser, UserError, UserQuery};
use mailapi_service::{Caller, Parts, Service, Settings, Unavailable};
use mailapi_store::DirectorySettings;
use mailapi_testkit::{ForeignSchema, ForeignUsers, TestApp};

use crate::{HERE, message, parts};

/// `secret`, as hashed by Dovecot.
const SALTED: &str =
    "{SSHA512}dV6bPDuBT0mYiS803ANg5pTOPP0R6YVBkhihysuLaWrPiBLNMqrCWsMxh4zh51H5IHYMfy93l3wn1ph9/K/SvvK2QAk=";
const BLOWFISH: &str = "$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";

const ADMIN: &str = "root@example.org";

/// Shown for a hash that names no scheme.
const UNNAMED: &str = "plain text or an unknown scheme";

/// A service with the accounts of `app` and the mailboxes of `users`.
fn service(app: &TestApp, users: &ForeignUsers, password: &str) -> Service {
    let settings = DirectorySettings { page: 2, ..DirectorySettings::default() };
    let directory = users.directory(password, ForeignSchema::POSTFIXADMIN.mailboxes, settings);
    let store = app.store.clone().with_directory(directory);
    let settings = Settings { admins: [address(ADMIN)].into(), password_rounds: 1000, ..Settings::default() };
    Service::new(Parts { store, settings, ..parts(app) })
}

struct Installation {
    app: TestApp,
    users: ForeignUsers,
    service: Service,
}

impl Installation {
    /// An existing installation with ann, bob (disabled), eve and an admin.
    async fn open(users: ForeignUsers) -> Self {
        let insert = |address: &str, password: &str, active: bool| {
            format!(
                "INSERT INTO mailbox (username, password, name, active) VALUES ('{address}', '{password}', 'N', {active});"
            )
        };
        let rows = [
            insert("ann@example.org", ForeignSchema::HELLO_WORLD, true),
            insert("bob@example.org", SALTED, false),
            insert("eve@example.net", BLOWFISH, true),
            insert(ADMIN, SALTED, true),
        ];
        users.sql(&rows.concat()).await;
        let app = TestApp::start().await;
        let service = service(&app, &users, ForeignSchema::POSTFIXADMIN.password);
        Self { app, users, service }
    }

    /// A service with another password query.
    fn reading(&self, password: &str) -> Service {
        service(&self.app, &self.users, password)
    }

    async fn on_each_engine() -> [Self; 2] {
        let [sqlite, postgres] = ForeignUsers::on_each_engine(&ForeignSchema::POSTFIXADMIN).await;
        [Self::open(sqlite).await, Self::open(postgres).await]
    }

    /// The probe's result as scheme names, numbers of mailboxes and examples.
    async fn unknown_schemes(&self) -> Vec<(String, usize, String)> {
        let probe = self.service.probe_directory().await.unwrap().unwrap();
        let schemes = probe.unknown_schemes.into_iter();
        schemes.map(|scheme| (scheme.name, scheme.mailboxes, scheme.example.to_string())).collect()
    }

    async fn log_in(&self, user: &str, password: &str) -> Result<TokenValue, CredentialsError> {
        Ok(self.service.login(user, &secret(password), HERE).await?.value)
    }

    async fn caller(&self, user: &str, password: &str) -> Caller {
        self.service.authenticate(&self.log_in(user, password).await.unwrap()).await.unwrap()
    }
}

fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

fn secret(text: &str) -> SecretText {
    Secret::new(text.to_owned())
}

fn is_about_elsewhere(violations: &Violations) -> bool {
    violations.to_string().contains("user database")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_of_an_active_mailbox_logs_in() {
    for place in Installation::on_each_engine().await {
        for (user, password) in [
            ("ann@example.org", "wrong"),
            ("ann@example.org", ""),
            ("bob@example.org", "secret"),
            ("nobody@example.org", "secret"),
            ("eve@example.net", "{CRYPT}!"),
        ] {
            let refused = place.log_in(user, password).await;
            assert!(matches!(refused, Err(CredentialsError::Refused)), "{user}");
        }
        for (user, password) in [("Ann@example.org", "Hello world!"), ("eve@example.net", "secret"), (ADMIN, "secret")]
        {
            place.log_in(user, password).await.unwrap();
        }
        // The external hash must not be replaced.
        place.users.sql("UPDATE mailbox SET password = '{PLAIN}secret' WHERE username = 'eve@example.net'").await;
        assert!(matches!(place.log_in("eve@example.net", "secret").await, Err(CredentialsError::Refused)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mailboxes_of_the_user_database_get_no_app_passwords() {
    for place in Installation::on_each_engine().await {
        place.service.sync_directory_once().await.unwrap();
        let ann = address("ann@example.org");
        let refused = place.service.create_app_password(&Caller::operator(), &ann, "phone").await;
        assert!(matches!(refused, Err(UserError::Invalid(violations)) if is_about_elsewhere(&violations)));

        // One of a former account of our own opens nothing either.
        let (_, value) = place.app.service.create_app_password(&Caller::operator(), &ann, "phone").await.unwrap();
        let imap = Visitor { protocol: LoginProtocol::Imap, ..HERE };
        let entered = place.service.log_in("ann@example.org", &secret(value.expose()), imap).await;
        assert_eq!(entered.map(drop), Err(LoginError::Refused));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_two_rows_is_refused_as_unknown() {
    for place in Installation::on_each_engine().await {
        let twice = format!(
            "CREATE TABLE both_rows AS SELECT username, password, name, active FROM mailbox;
             INSERT INTO both_rows SELECT username, '{SALTED}', name, active FROM mailbox
                 WHERE username = 'ann@example.org';"
        );
        place.users.sql(&twice).await;
        let service = place.reading("SELECT password FROM both_rows WHERE username = $1");
        for password in ["Hello world!", "secret"] {
            let refused = service.login("ann@example.org", &secret(password), HERE).await;
            assert!(matches!(refused, Err(CredentialsError::Refused)), "{password}");
        }
        service.login("eve@example.net", &secret("secret"), HERE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_international_address_logs_in_however_it_is_stored() {
    for place in Installation::on_each_engine().await {
        for stored in ["a@bücher.test", "b@xn--bcher-kva.test"] {
            let row = format!(
                "INSERT INTO mailbox (username, password, name, active) VALUES ('{stored}', '{SALTED}', 'N', TRUE)"
            );
            place.users.sql(&row).await;
        }
        place.service.sync_directory_once().await.unwrap();
        for user in ["a@bücher.test", "a@xn--bcher-kva.test", "b@bücher.test", "b@xn--bcher-kva.test"] {
            place.log_in(user, "secret").await.unwrap_or_else(|error| panic!("{user}: {error}"));
        }
        let synced = place.service.sync_directory_once().await.unwrap();
        assert_eq!((synced.mailboxes, synced.gone), (6, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_names_a_user_database_that_cannot_be_read() {
    for place in Installation::on_each_engine().await {
        assert_eq!(place.service.health().await.users, Some(Ok(())));
        place.users.sql("ALTER TABLE mailbox RENAME TO elsewhere").await;
        place.service.sync_directory_once().await.unwrap_err();
        place.app.clock.advance(Duration::from_secs(60));
        assert_eq!(place.service.health().await.users, Some(Err("unavailable")));
        place.users.sql("ALTER TABLE elsewhere RENAME TO mailbox").await;
        place.app.clock.advance(Duration::from_secs(60));
        assert_eq!(place.service.health().await.users, Some(Err("unavailable")), "unavailable until the next sync");
        place.service.sync_directory_once().await.unwrap();
        place.app.clock.advance(Duration::from_secs(60));
        assert_eq!(place.service.health().await.users, Some(Ok(())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_user_reads_sends_and_has_tokens_and_permissions() {
    for place in Installation::on_each_engine().await {
        let ann = place.caller("ann@example.org", "Hello world!").await;
        let mine = place.service.get_user(&Caller::operator(), &address("ann@example.org")).await.unwrap();
        assert_eq!((mine.account.name.as_str(), mine.account.last_login_at), ("N", Some(place.app.clock.now())));
        place.service.send(&ann, message("ann@example.org", &["someone@elsewhere.example"])).await.unwrap();
        let as_eve =
            async || place.service.send(&ann, message("eve@example.net", &["someone@elsewhere.example"])).await;
        assert!(matches!(as_eve().await, Err(SendError::DomainNotAllowed)), "the domain is not known yet");

        place.service.sync_directory_once().await.unwrap();
        assert!(matches!(as_eve().await, Err(SendError::SenderNotAuthorized)));
        let (eve, net) = (address("eve@example.net"), "example.net".parse().unwrap());
        let admin = place.caller(ADMIN, "secret").await;
        place.service.grant_permission(&admin, &address("ann@example.org"), Permission::SendMail, &net).await.unwrap();
        let ann = place.caller("ann@example.org", "Hello world!").await;
        place.service.send(&ann, message("eve@example.net", &["someone@elsewhere.example"])).await.unwrap();
        let new = CreateToken {
            name: "script".to_owned(),
            kind: TokenKind::User,
            email: Some(eve.clone()),
            expires_at: None,
        };
        let (_, token) = place.service.create_token(&admin, new).await.unwrap();
        assert_eq!(place.service.authenticate(&token).await.unwrap().grants.mailbox(), Some(&eve));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_them_is_changed_here() {
    let [place, _] = Installation::on_each_engine().await;
    place.service.sync_directory_once().await.unwrap();
    let (operator, ann) = (Caller::operator(), address("ann@example.org"));
    let refused = |outcome: Result<(), UserError>| match outcome {
        Err(UserError::Invalid(violations)) => assert!(is_about_elsewhere(&violations)),
        other => panic!("{other:?}"),
    };
    let new = CreateUser {
        email: address("new@example.org"),
        password: secret("correct horse").into(),
        name: String::new(),
        quota_bytes: None,
    };
    refused(place.service.create_user(&operator, new).await.map(drop));
    refused(place.service.update_user(&operator, &ann, UpdateUser::default()).await.map(drop));
    refused(place.service.reset_password(&operator, &ann, None).await.map(drop));
    refused(place.service.disable_user(&operator, &ann).await.map(drop));
    refused(place.service.enable_user(&operator, &ann).await.map(drop));
    refused(place.service.delete_user(&operator, &ann).await.map(drop));
    let domain = "example.org".parse().unwrap();
    let deleted = place.service.delete_domain(&operator, &domain, true).await;
    assert!(matches!(deleted, Err(DomainError::NotEmpty)));
    let stranger = SignUp {
        domain: "new.example".parse().unwrap(),
        email: address("me@new.example"),
        password: secret("correct horse"),
        name: String::new(),
    };
    let signed_up = place.service.sign_up(stranger, HERE).await;
    assert!(matches!(signed_up, Err(SignUpError::Invalid(violations)) if is_about_elsewhere(&violations)));
    let stays = place.service.get_user(&operator, &ann).await.unwrap();
    assert!(stays.account.active);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_follows_the_user_database() {
    for place in Installation::on_each_engine().await {
        let synced = place.service.sync_directory_once().await.unwrap();
        assert_eq!(synced, DirectorySynced { mailboxes: 4, changed: 4, ..DirectorySynced::default() });
        let list = place.service.list_users(&Caller::operator(), UserQuery::default(), Page::new(50, 0)).await.unwrap();
        let mut shown: Vec<_> =
            list.items.iter().map(|user| (user.account.email.as_str(), user.account.active)).collect();
        shown.sort_unstable();
        let expected =
            [("ann@example.org", true), ("bob@example.org", false), ("eve@example.net", true), (ADMIN, true)];
        assert_eq!(shown, expected);
        assert_eq!(place.service.sync_directory_once().await.unwrap().changed, 0);

        // Users disabled there lose their sessions here at the next sync.
        let session = place.log_in("ann@example.org", "Hello world!").await.unwrap();
        place.users.sql("UPDATE mailbox SET active = FALSE WHERE username = 'ann@example.org'").await;
        assert_eq!(place.service.sync_directory_once().await.unwrap().changed, 1);
        assert!(matches!(place.service.authenticate(&session).await, Err(AuthenticateError::Expired { .. })));
        place.users.sql("UPDATE mailbox SET active = TRUE WHERE username = 'ann@example.org'").await;
        place.service.sync_directory_once().await.unwrap();
        assert!(
            matches!(place.service.authenticate(&session).await, Err(AuthenticateError::Expired { .. })),
            "the session stays ended"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_that_is_gone_is_switched_off_and_forgotten_later() {
    for place in Installation::on_each_engine().await {
        place.service.sync_directory_once().await.unwrap();
        let eve = address("eve@example.net");
        let new = CreateToken {
            name: "script".to_owned(),
            kind: TokenKind::User,
            email: Some(eve.clone()),
            expires_at: None,
        };
        let (_, token) = place.service.create_token(&Caller::operator(), new).await.unwrap();
        let restored = format!("INSERT INTO mailbox (username, password) VALUES ('eve@example.net', '{BLOWFISH}')");

        place.users.sql("DELETE FROM mailbox WHERE username = 'eve@example.net'").await;
        assert_eq!(place.service.sync_directory_once().await.unwrap().gone, 1);
        assert!(matches!(place.service.authenticate(&token).await, Err(AuthenticateError::Expired { .. })));
        // Recreating the table revokes no token.
        place.users.sql(&restored).await;
        place.service.sync_directory_once().await.unwrap();
        place.service.authenticate(&token).await.unwrap();

        place.users.sql("DELETE FROM mailbox WHERE username = 'eve@example.net'").await;
        place.service.sync_directory_once().await.unwrap();
        place.app.clock.advance(Duration::from_secs(24 * 60 * 60));
        assert_eq!(place.service.sync_directory_once().await.unwrap().forgotten, 1);
        let gone = place.service.get_user(&Caller::operator(), &eve).await;
        assert!(matches!(gone, Err(UserError::NotFound)));
        // By now, the address may belong to another person.
        place.users.sql(&restored).await;
        place.service.sync_directory_once().await.unwrap();
        assert!(matches!(place.service.authenticate(&token).await, Err(AuthenticateError::Expired { .. })));

        place.users.sql("DELETE FROM mailbox").await;
        let nothing = place.service.sync_directory_once().await.unwrap();
        assert_eq!(nothing, DirectorySynced::default(), "an empty table is being filled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_directory_user_is_not_forgotten_sooner_when_gone() {
    let [place, _] = Installation::on_each_engine().await;
    place.service.sync_directory_once().await.unwrap();
    place.app.clock.advance(Duration::from_secs(7 * 24 * 60 * 60));
    place.users.sql("DELETE FROM mailbox WHERE username = 'bob@example.org'").await;
    let synced = place.service.sync_directory_once().await.unwrap();
    assert_eq!((synced.gone, synced.forgotten), (1, 0));
    let bob = address("bob@example.org");
    place.service.get_user(&Caller::operator(), &bob).await.unwrap();
    place.app.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(place.service.sync_directory_once().await.unwrap().forgotten, 1);
    assert!(matches!(place.service.get_user(&Caller::operator(), &bob).await, Err(UserError::NotFound)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_domain_gets_a_key_and_signs_once_published() {
    let [place, _] = Installation::on_each_engine().await;
    place.service.sync_directory_once().await.unwrap();
    let (operator, name) = (Caller::operator(), "example.org".parse().unwrap());
    assert!(place.service.list_dkim_keys(&operator, &name).await.unwrap().is_empty());
    let approved = place.service.approve_domain(&operator, &name).await.unwrap();
    assert_eq!((approved.active, approved.dkim_selector), (true, None), "there is nothing to approve");
    let key = place.service.rotate_dkim(&operator, &name, DkimAlgorithm::Ed25519).await.unwrap();
    let signs = async || place.service.get_domain(&operator, &name).await.unwrap().dkim_selector;
    place.service.verify_domain(&operator, &name).await.unwrap();
    assert_eq!(signs().await, None, "the record is not published yet");
    place.app.dns.set_txt(&key.dns_name(&name), &[&key.dns_value()]);
    place.service.verify_domain(&operator, &name).await.unwrap();
    assert_eq!(signs().await, Some(key.selector));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_domain_switched_on_again_needs_no_approval() {
    let [place, _] = Installation::on_each_engine().await;
    place.service.sync_directory_once().await.unwrap();
    let name: DomainName = "example.org".parse().unwrap();
    let ann = address("ann@example.org");
    let manage = Permission::ManageDomains;
    place.service.grant_permission(&Caller::operator(), &ann, manage, &name).await.unwrap();
    let manager = place.caller("ann@example.org", "Hello world!").await;
    for active in [false, true] {
        let change = DomainChange { active: Some(active), description: None };
        let domain = place.service.update_domain(&manager, &name, change).await.unwrap();
        assert_eq!((domain.active, domain.dkim_selector), (active, None));
        let pending = place.service.pending_domains(&Caller::operator(), Page::new(50, 0)).await.unwrap();
        assert_eq!(pending.total, 0);
        assert!(place.app.store.domains().approved_names().await.unwrap().contains(&name), "its mail is counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_the_copies_can_be_changed_again() {
    let [place, _] = Installation::on_each_engine().await;
    place.service.sync_directory_once().await.unwrap();
    // The same tables, without an external user database.
    let (alone, operator, ann) = (&place.app.service, Caller::operator(), address("ann@example.org"));
    alone.disable_user(&operator, &ann).await.unwrap();
    alone.enable_user(&operator, &ann).await.unwrap();
    let refused = alone.login("ann@example.org", &secret("Hello world!"), HERE).await;
    assert!(matches!(refused, Err(CredentialsError::Refused)));
    alone.reset_password(&operator, &ann, Some(secret("correct horse"))).await.unwrap();
    alone.login("ann@example.org", &secret("correct horse"), HERE).await.unwrap();
    alone.delete_domain(&operator, &"example.net".parse().unwrap(), true).await.unwrap();
    // An account with its own password stays local when the setting returns.
    place.service.sync_directory_once().await.unwrap();
    place.log_in("ann@example.org", "correct horse").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_that_names_no_scheme_is_not_printed() {
    let [place, _] = Installation::on_each_engine().await;
    for (hash, shown) in [("{PLAIN}hidden", "{PLAIN}"), ("{hidden", UNNAMED), ("hidden", UNNAMED)] {
        place.users.sql(&format!("UPDATE mailbox SET password = '{hash}' WHERE username = 'ann@example.org'")).await;
        assert_eq!(place.unknown_schemes().await, [(shown.to_owned(), 1, "ann@example.org".to_owned())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_unknown_scheme_of_any_mailbox_is_named() {
    for place in Installation::on_each_engine().await {
        assert_eq!(place.unknown_schemes().await, []);
        // A page has two mailboxes, the first mailbox keeps its hash, and bob is disabled anyway.
        for (address, hash) in [("eve@example.net", "{PLAIN}a"), (ADMIN, "{plain}b"), ("bob@example.org", "{MD5}c")] {
            place.users.sql(&format!("UPDATE mailbox SET password = '{hash}' WHERE username = '{address}'")).await;
        }
        place.users.sql("INSERT INTO mailbox (username, password) VALUES ('zoe@example.org', '{ARGON2I}d')").await;
        let named = |name: &str, mailboxes, example: &str| (name.to_owned(), mailboxes, example.to_owned());
        let expected = [named("{ARGON2I}", 1, "zoe@example.org"), named("{PLAIN}", 2, "eve@example.net")];
        assert_eq!(place.unknown_schemes().await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_accounts_remain_and_an_outage_stops_only_logins() {
    let [place, _] = Installation::on_each_engine().await;
    place.app.mailbox("own@example.org", None).await;
    place.users.sql("INSERT INTO mailbox (username, password) VALUES ('own@example.org', '{PLAIN}x')").await;
    place.service.sync_directory_once().await.unwrap();
    place.log_in("own@example.org", mailapi_testkit::PASSWORD).await.unwrap();
    let ann = place.log_in("ann@example.org", "Hello world!").await.unwrap();
    assert_eq!(place.service.health().await.users, Some(Ok(())));
    let probe = place.service.probe_directory().await.unwrap().unwrap();
    assert_eq!((probe.first, probe.unknown_schemes), (Some(address("ann@example.org")), vec![]));

    place.users.sql("DROP TABLE mailbox").await;
    assert!(matches!(place.log_in("ann@example.org", "Hello world!").await, Err(CredentialsError::Unavailable(_))));
    place.service.authenticate(&ann).await.unwrap();
    place.service.sync_directory_once().await.unwrap_err();
    place.service.probe_directory().await.unwrap_err();
    assert_eq!(place.app.service.health().await.users, None);
}

/// A mailbox query in which one row fails, on each engine: its name or quota, or its state.
fn failing(users: &ForeignUsers, part: &str) -> String {
    let is_postgres = users.url().starts_with("postgres");
    let failing = match is_postgres {
        // A quota in MB, which overflows INT4.
        true => "quota::integer * 1048576",
        false => "json('[' || CASE WHEN quota > 2000 THEN ']' ELSE quota END || ']')",
    };
    let state = format!("(active AND ({failing}) IS NOT NULL)");
    match part {
        "quota" => format!("SELECT username AS email, name, active, {failing} AS quota_bytes FROM mailbox"),
        "state" => format!("SELECT username AS email, name, {state} AS active, 0 AS quota_bytes FROM mailbox"),
        // Not even the addresses can be listed.
        _ => format!(
            "SELECT username AS email, name, active, 0 AS quota_bytes FROM mailbox WHERE ({failing}) IS NOT NULL"
        ),
    }
}

impl Installation {
    /// A service with another mailbox query.
    fn listing(&self, mailboxes: &str) -> Service {
        let settings = DirectorySettings { page: 2, ..DirectorySettings::default() };
        let directory = self.users.directory(ForeignSchema::POSTFIXADMIN.password, mailboxes, settings);
        let settings = Settings { admins: [address(ADMIN)].into(), password_rounds: 1000, ..Settings::default() };
        Service::new(Parts { store: self.app.store.clone().with_directory(directory), settings, ..parts(&self.app) })
    }
}

async fn is_in(service: &Service, token: &TokenValue) -> bool {
    service.authenticate(token).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_quota_fails_stops_neither_its_user_nor_the_sync() {
    for place in Installation::on_each_engine().await {
        let service = place.listing(&failing(&place.users, "quota"));
        service.sync_directory_once().await.unwrap();
        let eve = service.login("eve@example.net", &secret("secret"), HERE).await.unwrap().value;
        place.users.sql("UPDATE mailbox SET quota = 2048, name = 'M' WHERE username = 'ann@example.org'").await;
        place.users.sql("UPDATE mailbox SET active = FALSE WHERE username = 'eve@example.net'").await;
        let new = format!("INSERT INTO mailbox (username, password) VALUES ('new@example.org', '{SALTED}')");
        place.users.sql(&new).await;
        let synced = service.sync_directory_once().await.unwrap();
        assert_eq!((synced.mailboxes, synced.changed, synced.gone, synced.unreadable), (5, 2, 0, 0));
        assert!(!is_in(&service, &eve).await, "eve is disabled there");
        let ann = service.login("ann@example.org", &secret("Hello world!"), HERE).await.unwrap().value;
        assert!(is_in(&service, &ann).await);
        let shown = service.get_user(&Caller::operator(), &address("ann@example.org")).await.unwrap();
        assert_eq!(shown.account.name, "N", "the copy keeps what cannot be computed");
        assert_eq!(service.health().await.users, Some(Ok(())));

        let probe = service.probe_directory().await.unwrap().unwrap();
        assert_eq!((probe.mailboxes, probe.unreadable.len()), (5, 1));
        assert_eq!(probe.unreadable[0].examples, ["ann@example.org"]);
        let fault = &probe.unreadable[0].fault;
        assert!(fault.contains("integer out of range (22003)") || fault.contains("malformed JSON"), "{fault}");
        place.users.sql("UPDATE mailbox SET active = FALSE WHERE username = 'ann@example.org'").await;
        service.sync_directory_once().await.unwrap();
        assert!(!is_in(&service, &ann).await, "the bad row itself is disabled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_whose_state_fails_loses_access_until_it_is_readable() {
    for place in Installation::on_each_engine().await {
        let service = place.listing(&failing(&place.users, "state"));
        service.sync_directory_once().await.unwrap();
        let ann = service.login("ann@example.org", &secret("Hello world!"), HERE).await.unwrap().value;
        let eve = service.login("eve@example.net", &secret("secret"), HERE).await.unwrap().value;
        place.users.sql("UPDATE mailbox SET quota = 2048 WHERE username = 'ann@example.org'").await;
        let synced = service.sync_directory_once().await.unwrap();
        assert_eq!((synced.mailboxes, synced.unreadable), (3, 1));
        assert_eq!((is_in(&service, &ann).await, is_in(&service, &eve).await), (false, true));
        let refused = service.login("ann@example.org", &secret("Hello world!"), HERE).await.map(drop);
        assert!(matches!(refused, Err(CredentialsError::Unavailable(Unavailable::UserDatabase(_)))), "{refused:?}");
        // It is not forgotten, however long the row stays as it is.
        place.app.clock.advance(Duration::from_secs(48 * 60 * 60));
        assert_eq!(service.sync_directory_once().await.unwrap().forgotten, 0);
        place.users.sql("UPDATE mailbox SET quota = 0").await;
        service.sync_directory_once().await.unwrap();
        service.login("ann@example.org", &secret("Hello world!"), HERE).await.unwrap();
        // All rows fail: the query is broken, and all keep their access.
        let eve = service.login("eve@example.net", &secret("secret"), HERE).await.unwrap().value;
        place.users.sql("UPDATE mailbox SET quota = 2048").await;
        service.sync_directory_once().await.unwrap_err();
        assert!(is_in(&service, &eve).await);
        place.app.clock.advance(Duration::from_secs(60));
        assert_eq!(service.health().await.users, Some(Err("unavailable")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_access_are_looked_up_alone_if_the_list_fails() {
    for place in Installation::on_each_engine().await {
        let service = place.listing(&failing(&place.users, "list"));
        service.sync_directory_once().await.unwrap();
        let log_in =
            async |user: &str, password: &str| service.login(user, &secret(password), HERE).await.unwrap().value;
        let ann = log_in("ann@example.org", "Hello world!").await;
        let eve = log_in("eve@example.net", "secret").await;
        let root = log_in(ADMIN, "secret").await;
        place.users.sql("UPDATE mailbox SET quota = 2048 WHERE username = 'ann@example.org'").await;
        place.users.sql("UPDATE mailbox SET active = FALSE WHERE username = 'eve@example.net'").await;
        // The list cannot be read, which health says.
        let failed = service.sync_directory_once().await.unwrap_err();
        assert!(failed.to_string().contains("22003") || failed.to_string().contains("malformed JSON"), "{failed}");
        assert!(!is_in(&service, &eve).await, "eve is disabled there");
        assert!(is_in(&service, &root).await);
        assert!(!is_in(&service, &ann).await, "her row fails while others can be read");
        assert_eq!(service.health().await.users, Some(Err("unavailable")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_query_is_an_unavailable_user_database() {
    for place in Installation::on_each_engine().await {
        let broken = place.reading("SELECT missing FROM mailbox WHERE username = $1");
        let refused = broken.login("ann@example.org", &secret("Hello world!"), HERE).await.map(drop);
        assert!(matches!(refused, Err(CredentialsError::Unavailable(Unavailable::UserDatabase(_)))), "{refused:?}");
        assert_eq!(broken.health().await.users, Some(Err("unavailable")));
    }
    let place = Installation::open(ForeignUsers::on_postgres(&ForeignSchema::POSTFIXADMIN).await).await;
    let bytes = place.reading("SELECT password::bytea FROM mailbox WHERE username = $1");
    let refused = bytes.login("ann@example.org", &secret("Hello world!"), HERE).await.map(drop);
    assert!(matches!(refused, Err(CredentialsError::Unavailable(Unavailable::UserDatabase(_)))), "{refused:?}");
    assert_eq!(bytes.health().await.users, Some(Err("unavailable")));
    assert!(bytes.probe_directory().await.unwrap_err().to_string().contains("bytea"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_names_rows_that_are_dropped_or_can_never_log_in() {
    for place in Installation::on_each_engine().await {
        for (row, password, quota) in [
            ("blank@example.org ", SALTED, "0"),
            ("Mixed@example.org", SALTED, "0"),
            ("@example.org", "", "0"),
            ("padded@example.org", "$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.   ", "10"),
            ("locked@example.org", "!$6$x", "0"),
            ("md5@example.org", "$1$salt$hidden", "0"),
        ] {
            let row =
                format!("INSERT INTO mailbox (username, password, quota) VALUES ('{row}', '{password}', {quota})");
            place.users.sql(&row).await;
        }
        let probe = place.service.probe_directory().await.unwrap().unwrap();
        let mut dropped: Vec<_> = probe.dropped.iter().flat_map(|rows| rows.examples.clone()).collect();
        dropped.sort();
        assert_eq!(dropped, ["@example.org", "blank@example.org "]);
        assert_eq!(probe.not_found.unwrap().examples, ["Mixed@example.org"]);
        assert_eq!(probe.small_quota.unwrap().examples, ["padded@example.org"]);
        let named = |part: &str| probe.unknown_schemes.iter().any(|scheme| scheme.name.contains(part));
        for part in ["followed by blanks", "a hash locked by", "MD5-CRYPT ($1$)"] {
            assert!(named(part), "{part}: {:?}", probe.unknown_schemes);
        }
        assert!(!format!("{:?}", probe.unknown_schemes).contains("hidden"));
    }
}
