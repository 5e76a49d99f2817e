//! Statistics, the sent list and statuses with up to ten million recipients of sent mail.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Size;
use super::bulk::{Bulk, Copies};
use super::grown::{Grown, whole};
use crate::client::http::Request;
use crate::mail::{Author, DOMAIN, WRITER};
use crate::mail_site::{MailSite, PASSWORD, api, database};
use crate::outcome::{Failure, Outcome, same};
use crate::random::Random;
use crate::server::Product;

/// Number of messages sent through the API; all others are copies of them.
const REAL: usize = 100;
/// Recipients per message.
const RECIPIENTS: usize = 10;
/// Number of statuses requested in turn.
const STATUSES: usize = 500;
/// Time between two messages: ten million recipients take 40 days.
const APART_MILLIS: i64 = 3_456;
const PAGE: u64 = 200;
const SEED: u64 = 12;
/// Maximum time for updating the statistics, and the interval of checking.
const PATIENCE: Duration = Duration::from_secs(1_800);
const LOOK: Duration = Duration::from_millis(250);
const ALL_TIME: &str = "/stats/delivery?start_date=2020-01-01";

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Sent mail: the cost of reading as it grows", "recipients of sent mail", size);
    let mut site = MailSite::with_people(product).await?;
    send(&site).await?;
    let mut there = REAL * RECIPIENTS;
    for &recipients in size.recipients {
        site.server.settle().await?;
        let directory = site.stop().await?;
        copy(&database(directory.path()), there / RECIPIENTS, recipients / RECIPIENTS)?;
        site = MailSite::on(product, directory).await?;
        let (cpu, began) = (site.server.process().cpu()?, Instant::now());
        counted(&site, recipients).await?;
        grown.note(format!(
            "After {} more recipients the statistics had caught up in {:.0} s with {:.0} s of processor time.",
            whole((recipients - there) as f64),
            began.elapsed().as_secs_f64(),
            (site.server.process().cpu()? - cpu).as_secs_f64(),
        ))?;
        there = recipients;
        ask(&site, size, recipients, &mut grown).await?;
    }
    site.stop().await?;
    Ok(grown)
}

/// Sends the messages that all others are copies of.
async fn send(site: &MailSite) -> Outcome {
    let recipients: Vec<String> = (0..RECIPIENTS).map(|number| format!("recipient{number}@{DOMAIN}")).collect();
    for email in &recipients {
        site.post("/users", &json!({ "email": email, "password": PASSWORD }), 201).await?;
    }
    let (token, author, mut http) = (site.user_token(WRITER).await?, Author::new(), site.connect().await?);
    for number in 0..REAL {
        let mut message = author.ordinary_message(number);
        message["to"] = json!(recipients);
        http.json(&Request::post(&api("/mail/send"), &token, &message), 202).await?;
    }
    Ok(())
}

/// Copies the messages up to the number `messages`, without the delivery log, which is not read here. Each is older
/// than the one before, and queued for the statistics like any other message.
fn copy(file: &Path, there: usize, messages: usize) -> Outcome {
    let bulk = Bulk::open(file)?;
    let real = i64::try_from(REAL)?;
    let first = bulk.number("SELECT MIN(id) FROM sent_messages")?;
    let last = first + real - 1;
    let (from, to) = (i64::try_from(there / REAL)?, i64::try_from(messages / REAL)? - 1);
    let before = bulk.number("SELECT MAX(id) FROM sent_messages")?;
    let earlier =
        |column: &str| (column.to_owned(), format!("{column} - ((id - {first}) + ?1 * {real}) * {APART_MILLIS}"));
    let times = ["created_at", "submitted_at"].map(earlier);
    let mut changed = vec![("id", format!("id + ?1 * {real}")), ("message_id", format!("uuid_of(id + ?1 * {real})"))];
    changed.extend(times.iter().map(|(column, value)| (column.as_str(), value.clone())));
    let (sent, recipients) = (format!("id BETWEEN {first} AND {last}"), format!("sent_id BETWEEN {first} AND {last}"));
    let sent_id = [("sent_id", format!("sent_id + ?1 * {real}"))];
    bulk.copy(
        from,
        to,
        &[
            Copies { table: "sent_messages", rows: &sent, changed: &changed },
            Copies { table: "sent_recipients", rows: &recipients, changed: &sent_id },
        ],
    )?;
    // Messages from before the creation of an account are hidden from its owner.
    bulk.connection.execute_batch(&format!(
        "UPDATE accounts SET created_at = MIN(created_at, (SELECT MIN(created_at) FROM sent_messages));
        INSERT INTO status_changes (sent_id, email, status_before, status_after, refused)
            SELECT sent_id, email, 'pending', status, refused FROM sent_recipients WHERE sent_id > {before}"
    ))?;
    Ok(())
}

/// Waits until the statistics include all recipients, and the server is idle.
async fn counted(site: &MailSite, recipients: usize) -> Outcome {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let all = site.get(ALL_TIME).await?["summary"]["delivered"].as_u64();
        if all == Some(recipients as u64) {
            return site.server.settle().await;
        }
        if Instant::now() > give_up {
            return same("recipients that were counted", all, Some(recipients as u64));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn ask(site: &MailSite, size: &Size, recipients: usize, grown: &mut Grown) -> Outcome {
    let (plan, server) = (&size.plan, &site.server);
    let messages = recipients / RECIPIENTS;
    let sent = site.get("/mail/sent?limit=1").await?;
    same("messages in the sent list", sent["total"].as_u64(), Some(messages as u64))?;

    let (writer, admin) = (site.user_token(WRITER).await?, server.admin.clone());
    let get = |path: &str, token: &str| Request::get(&api(path), token);
    let statuses = some_messages(site, messages).await?;
    let statuses = statuses.iter().map(|id| get(&format!("/mail/{id}/status"), &writer)).collect();
    let counting = Some("the total of a filtered list is counted in an index");
    let passing = Some("the entries before the page are skipped one by one");
    let middle = format!("/mail/sent?offset={}", messages / 2);
    for (named, requests) in [
        (("statistics of 7 days", None), vec![get("/stats/delivery", &admin)]),
        (("statistics of all time", None), vec![get(ALL_TIME, &admin)]),
        (("statistics of a sender", None), vec![get(&format!("/stats/users/{WRITER}"), &admin)]),
        (("sent list of 50", None), vec![get("/mail/sent", &writer)]),
        (("sent list of 50 of all", None), vec![get("/mail/sent", &admin)]),
        (("status", None), statuses),
        (("sent list, one status", counting), vec![get("/mail/sent?status=sent", &admin)]),
        (("sent list, the middle", passing), vec![get(&middle, &writer)]),
    ] {
        grown.http(plan, named, recipients, server, requests).await?;
    }
    Ok(())
}

/// The identifiers of messages from anywhere in the list.
async fn some_messages(site: &MailSite, messages: usize) -> Outcome<Vec<String>> {
    let mut random = Random::new(SEED);
    let mut found = Vec::new();
    while found.len() < STATUSES.min(messages) {
        let page = site.get(&format!("/mail/sent?limit={PAGE}&offset={}", random.below(messages))).await?;
        let page = page["messages"].as_array().ok_or_else(|| Failure::new("a sent list without messages"))?;
        let ids = page.iter().filter_map(|message: &Value| Some(message["message_id"].as_str()?.to_owned()));
        // Random pages repeat and overlap; that does no harm to a load.
        found.extend(ids);
    }
    Ok(found)
}
