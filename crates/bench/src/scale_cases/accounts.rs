//! Up to a hundred thousand users in ten thousand domains.

use std::path::Path;

use mailapi_model::TokenValue;
use rusqlite::functions::FunctionFlags;
use serde_json::json;

use super::Size;
use super::bulk::{Bulk, Copies};
use super::grown::{Grown, whole};
use crate::client::http::Request;
use crate::mail_site::{MailSite, PASSWORD, api, database};
use crate::outcome::{Outcome, same};
use crate::random::Random;
use crate::server::Product;

/// Users per domain. Those of the first domain are created through the API; all others are copies of them.
const USERS: usize = 10;
/// Number of users that send requests in turn.
const ASKERS: usize = 1_000;
const SEED: u64 = 13;
/// Time between the creation of two domains.
const APART_MILLIS: i64 = 60_000;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Accounts: ten users to a domain", "users", size);
    // Without the cache of callers, each request looks its token up.
    let product = product.with("MAILAPI_ADVANCED__AUTH__CACHED_CALLERS", "0");
    let mut site = MailSite::empty(&product).await?;
    let mine = make(&site).await?;
    let mut domains = 1;
    for &users in size.accounts {
        let directory = site.stop().await?;
        copy(&database(directory.path()), domains, users / USERS)?;
        domains = users / USERS;
        site = MailSite::on(&product, directory).await?;
        grown.note(format!(
            "With {} users a start takes {:.0} ms, including the comparison of mail server and accounts.",
            whole(users as f64),
            site.server.start_took.as_secs_f64() * 1e3
        ))?;
        site.server.settle().await?;
        ask(&site, &mine, size, users, &mut grown).await?;
    }
    site.stop().await?;
    Ok(grown)
}

fn domain(number: usize) -> String {
    format!("d{number}.test")
}

/// The address of the user with this number, counted over all domains.
fn user(number: usize) -> String {
    format!("user{}@{}", number % USERS, domain(number / USERS))
}

/// The token value of a user in a copied domain, instead of a random one.
fn token(email: &str) -> String {
    format!("mapi_{email}")
}

/// Creates the users that all others are copies of; returns their tokens.
async fn make(site: &MailSite) -> Outcome<Vec<String>> {
    site.post("/domains", &json!({ "domain": domain(0) }), 201).await?;
    let mut tokens = Vec::new();
    for number in 0..USERS {
        site.post("/users", &json!({ "email": user(number), "password": PASSWORD }), 201).await?;
        tokens.push(site.user_token(&user(number)).await?);
    }
    Ok(tokens)
}

/// Copies the first domain with its users, tokens and mailboxes to the numbers from `there` to below `wanted`.
fn copy(file: &Path, there: usize, wanted: usize) -> Outcome {
    let bulk = Bulk::open(file)?;
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    bulk.connection.create_scalar_function("hash_of_token_of", 1, flags, |context| {
        Ok(TokenValue::from_caller(&token(&context.get::<String>(0)?)).hash().as_bytes().to_vec())
    })?;
    let users = i64::try_from(USERS)?;
    // Mailbox 0 contains deleted folders.
    let first = |table: &str| bulk.number(&format!("SELECT MIN(id) FROM {table} WHERE id > 0"));
    let (mailbox, folder) = (first("drop_mailboxes")?, first("drop_folders")?);
    let folders = bulk.number(&format!("SELECT COUNT(*) FROM drop_folders WHERE mailbox_id < {mailbox} + {users}"))?;
    let token = bulk.number("SELECT MIN(id) FROM tokens WHERE email IS NOT NULL")?;
    let between = |column: &str, first: i64, count: i64| format!("{column} BETWEEN {first} AND {}", first + count - 1);
    let (of_domain, in_domain) = (format!("name = '{}'", domain(0)), format!("domain = '{}'", domain(0)));
    let renamed = |column: &str| format!("REPLACE({column}, '{}', 'd' || ?1 || '.test')", domain(0));
    let shifted = |column: &str, by: i64| format!("{column} + ?1 * {by}");
    let given = |column, value: &str| (column, value.to_owned());
    let later = |column| (column, shifted(column, APART_MILLIS));
    let (mailboxes, tokens) = (between("id", mailbox, users), between("id", token, users));
    let (of_folders, of_mailboxes) = (between("id", folder, folders), between("mailbox_id", mailbox, users));
    let hash = format!("hash_of_token_of({})", renamed("email"));
    let tables = [
        ("domains", &of_domain, vec![("name", renamed("name")), later("created_at")]),
        ("dkim_keys", &in_domain, vec![given("id", "NULL"), ("domain", renamed("domain"))]),
        ("drop_domains", &of_domain, vec![("name", renamed("name"))]),
        ("accounts", &in_domain, vec![("email", renamed("email")), ("domain", renamed("domain")), later("created_at")]),
        (
            "tokens",
            &tokens,
            vec![given("id", "NULL"), ("hash", hash), ("email", renamed("email")), later("created_at")],
        ),
        ("drop_mailboxes", &mailboxes, vec![("id", shifted("id", users)), ("address", renamed("address"))]),
        (
            "drop_folders",
            &of_folders,
            vec![
                ("id", shifted("id", folders)),
                ("mailbox_id", shifted("mailbox_id", users)),
                ("uid_validity", shifted("uid_validity", folders)),
            ],
        ),
        ("drop_subscriptions", &of_mailboxes, vec![("mailbox_id", shifted("mailbox_id", users))]),
    ];
    let copies: Vec<Copies<'_>> = tables.iter().map(|(table, rows, changed)| Copies { table, rows, changed }).collect();
    bulk.copy(i64::try_from(there)?, i64::try_from(wanted)? - 1, &copies)?;
    let last = "UPDATE drop_uid_validity SET last = (SELECT MAX(uid_validity) FROM drop_folders)";
    Ok(bulk.connection.execute_batch(last)?)
}

async fn ask(site: &MailSite, mine: &[String], size: &Size, users: usize, grown: &mut Grown) -> Outcome {
    let (plan, server) = (&size.plan, &site.server);
    for (path, count) in [("/users?limit=1", users), ("/domains?limit=1", users / USERS)] {
        same(path, site.get(path).await?["total"].as_u64(), Some(count as u64))?;
    }
    let mut random = Random::new(SEED);
    let askers: Vec<usize> = (0..ASKERS).map(|_| random.below(users)).collect();
    let token_of = |number: usize| mine.get(number).cloned().unwrap_or_else(|| token(&user(number)));
    let me = |number: &usize| Request::get(&api("/tokens/me"), &token_of(*number));
    let inbox = |number: &usize| Request::get(&api("/mail/inbox"), &token_of(*number));
    let log_in = |number: &usize| {
        let body = json!({ "email": user(*number), "password": PASSWORD });
        Request::post(&api("/auth/login"), "", &body)
    };
    let admin = |path: &str| vec![Request::get(&api(path), &server.admin)];
    let cold = Some("no token is cached here, and a large table's pages are not in the readers' cache");
    let counted = Some("the total is counted in an index");
    let scanned = Some("a part of a name or an address is compared with all of them");
    let of_domain = format!("/users?domain={}", domain(users / USERS / 2));
    for (named, requests) in [
        (("token check", cold), askers.iter().map(me).collect()),
        (("inbox", cold), askers.iter().map(inbox).collect()),
        (("login", None), askers.iter().map(log_in).collect()),
        (("users of a domain", None), admin(&of_domain)),
        (("users, a page of 50", counted), admin("/users")),
        (("domains, a page of 50", counted), admin("/domains")),
        (("tokens, a page of 50", counted), admin("/tokens")),
        (("users, a part of a name", scanned), admin("/users?q=user7%40d5")),
    ] {
        grown.http(plan, named, users, server, requests).await?;
    }
    Ok(())
}
