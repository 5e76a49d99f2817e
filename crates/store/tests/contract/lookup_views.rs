use mailapi_model::{Alias, NewAppPassword, Permission, RuleSet, Secret, Timestamp};
use mailapi_store::{AliasStored, NewGrant};

use crate::engines::{Engine, add_account, at, dkim_key, domain, email, new_domain};

async fn give_send_mail(engine: &Engine, holder: &str, name: &str) {
    let grant = NewGrant {
        email: email(holder),
        domain: domain(name),
        permissions: vec![Permission::SendMail, Permission::ViewStats],
        granted_by: "admin".to_owned(),
        granted_at: Timestamp::from_seconds(0),
    };
    engine.store.permissions().grant(&grant).await.unwrap();
}

async fn add_app_password(engine: &Engine, mailbox: &str) {
    let new = NewAppPassword {
        email: email(mailbox),
        name: "phone".to_owned(),
        lookup_key: "beef".to_owned(),
        hash: Secret::new(format!("{{SSHA512}}{mailbox}")),
        created_at: at(5),
    };
    engine.store.app_passwords().insert(&new, 50).await.unwrap();
}

/// Tests the views with the queries of Postfix and Dovecot.
async fn mail_servers_find_what_they_look_up(engine: Engine) {
    let store = &engine.store;
    add_account(store, "ann@example.org", 1).await;
    add_account(store, "bob@example.org", 2).await;
    add_account(store, "eve@example.net", 3).await;
    let pending = mailapi_model::NewDomain { active: false, ..new_domain("pending.example", 4) };
    store.domains().insert(&pending, None).await.unwrap();
    store.dkim_keys().insert(&domain("example.net"), &dkim_key("m1")).await.unwrap();
    give_send_mail(&engine, "eve@example.net", "example.org").await;

    let logins = |sender: &str| {
        engine.sql(&format!("SELECT login FROM mailapi_sender_logins WHERE sender = '{sender}' ORDER BY login"))
    };
    assert_eq!(logins("ann@example.org"), "ann@example.org\neve@example.net");
    assert_eq!(logins("@example.org"), "eve@example.net", "an address without a mailbox");
    assert_eq!(logins("eve@example.net"), "eve@example.net");
    assert_eq!(logins("@example.net"), "", "view_stats sends nothing");

    let team = Alias {
        address: email("team@example.org"),
        members: vec![email("bob@example.org")],
        senders: vec![email("ann@example.org")],
        active: true,
        created_at: at(5),
    };
    assert_eq!(store.aliases().insert(&team).await, Ok(AliasStored::Stored));
    assert_eq!(logins("team@example.org"), "ann@example.org");
    assert!(store.aliases().delete(&team.address, at(6)).await.unwrap());

    let domains = || engine.sql("SELECT domain FROM mailapi_virtual_domains ORDER BY domain");
    assert_eq!(domains(), "example.net\nexample.org", "a domain that waits for approval gets no mail");
    let off = mailapi_store::DomainChange { active: Some(false), description: None };
    store.domains().update(&domain("example.net"), &off, at(9)).await.unwrap();
    assert_eq!(domains(), "example.net\nexample.org", "an inactive domain sends no mail but still gets mail");
    assert_eq!(logins("eve@example.net"), "");

    store.accounts().set_active(&email("bob@example.org"), false, at(9)).await.unwrap();
    let mailboxes = "SELECT email, local_part, domain, quota_bytes FROM mailapi_virtual_mailboxes WHERE active";
    assert_eq!(
        engine.sql(&format!("{mailboxes} ORDER BY email")),
        "ann@example.org|ann|example.org|\neve@example.net|eve|example.net|"
    );
    let receiving = || engine.sql("SELECT email FROM mailapi_virtual_mailboxes WHERE receives ORDER BY email");
    store.accounts().set_closed(&email("ann@example.org"), true).await.unwrap();
    assert_eq!(receiving(), "bob@example.org\neve@example.net", "a closed account gets no mail");
    store.accounts().set_closed(&email("ann@example.org"), false).await.unwrap();
    assert_eq!(receiving(), "ann@example.org\nbob@example.org\neve@example.net");
    assert_eq!(
        logins("bob@example.org"),
        "eve@example.net",
        "a holder of the permission may still send as the address"
    );
    let hash = engine.sql("SELECT password_hash FROM mailapi_credentials WHERE email = 'ann@example.org' AND active");
    assert_eq!(hash, "{SHA512-CRYPT}$6$salt$hash");

    for mailbox in ["ann@example.org", "bob@example.org"] {
        add_app_password(&engine, mailbox).await;
    }
    let app_passwords = || {
        engine.sql("SELECT email, password_hash FROM mailapi_app_passwords WHERE lookup_key = 'beef' ORDER BY email")
    };
    assert_eq!(app_passwords(), "ann@example.org|{SSHA512}ann@example.org", "bob is disabled");
    store.accounts().set_closed(&email("ann@example.org"), true).await.unwrap();
    assert_eq!(app_passwords(), "");
}

async fn each_mailbox_has_a_script(engine: Engine) {
    let store = &engine.store;
    for (at, mailbox) in (1..).zip(["ann@example.org", "bob@example.org", "eve@example.org", "zoe@example.org"]) {
        add_account(store, mailbox, at).await;
    }
    let ann = email("ann@example.org");
    let row = |mailbox: &str| {
        engine.sql(&format!("SELECT email, version, script FROM mailapi_rules WHERE email = '{mailbox}'"))
    };
    let put = async |text: &str| store.rules().put(&ann, &RuleSet::from_text(text).unwrap()).await.unwrap();
    let empty = row(ann.as_str());
    assert_eq!(empty, "ann@example.org|none|", "Pigeonhole 2.4 refuses mail for a mailbox without a script");
    assert_eq!(row("nobody@example.org"), "");

    // Mail arrives for a disabled mailbox, and its administration finds a closed one.
    store.accounts().set_active(&email("bob@example.org"), false, at(9)).await.unwrap();
    store.accounts().set_closed(&email("eve@example.org"), true).await.unwrap();
    let all = "ann@example.org\nbob@example.org\neve@example.org\nzoe@example.org";
    let listed = || engine.sql("SELECT email FROM mailapi_rules ORDER BY email");
    assert_eq!(listed(), all);

    put("rule\toff\tx\ndo\tstop\n").await;
    assert_eq!(row(ann.as_str()), empty, "no rule is enabled");
    put("rule\ton\tx\ndo\tflag\tone\n").await;
    let one = row(ann.as_str());
    assert!(one.starts_with("ann@example.org|") && one.contains("addflag \"one\";"), "{one}");
    put("rule\ton\tx\ndo\tflag\ttwo\n").await;
    let two = row(ann.as_str());
    assert!(two.contains("addflag \"two\";"), "{two}");
    let version = |row: &str| row.split('|').nth(1).unwrap().to_owned();
    let versions = [version(&empty), version(&one), version(&two)];
    let is_new = |at: usize| !versions[..at].contains(&versions[at]);
    assert!((0..3).all(is_new), "Dovecot compiles a script again if its version is another: {versions:?}");
    assert_eq!(row("bob@example.org"), "bob@example.org|none|", "the rules of another mailbox change nothing");
    assert_eq!(listed(), all, "one row for each mailbox");

    engine.sql("UPDATE mailbox_rules SET sieve = NULL, sieve_version = NULL");
    assert_eq!(
        store.rules().without_script(5).await.unwrap(),
        std::slice::from_ref(&ann),
        "as an older version stored them"
    );
    assert_eq!(row(ann.as_str()), empty);
    put("rule\ton\tx\ndo\tflag\tone\n").await;
    put("").await;
    assert_eq!(row(ann.as_str()), empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_servers_find_what_they_look_up_on_sqlite() {
    mail_servers_find_what_they_look_up(Engine::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_servers_find_what_they_look_up_on_postgres() {
    mail_servers_find_what_they_look_up(Engine::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mailbox_has_a_script_on_sqlite() {
    each_mailbox_has_a_script(Engine::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mailbox_has_a_script_on_postgres() {
    each_mailbox_has_a_script(Engine::postgres().await).await;
}
