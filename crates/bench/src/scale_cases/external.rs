//! Folders of a thousand and of a million messages in Dovecot.

use std::net::SocketAddr;

use mailapi_testkit::{Dovecot, DovecotFormat, DovecotSettings};
use serde_json::json;

use super::Size;
use super::folders::owner;
use super::grown::{Grown, Judge, whole};
use crate::client::http::Request;
use crate::mail::Author;
use crate::mail_site::{MailSite, PASSWORD, api};
use crate::outcome::{Outcome, same};
use crate::random::Random;
use crate::server::Product;
use crate::soak::Appending;

/// Number of appended messages; all others are copies made by Dovecot.
const REAL: usize = 1_000;
/// Number of messages read in turn.
const READ: usize = 500;
const SEED: u64 = 14;
/// Dovecot's own format stores many messages per file, and a copy is an index entry. A maildir of a million files
/// is unrealistic.
const FORMAT: DovecotFormat = DovecotFormat::Mdbox;
const MANY_CONNECTIONS: &str = "mail_max_userip_connections = 64\n";

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Folders in front of Dovecot", "messages in the folder", size).judged(Judge::Latency);
    let dovecot = Dovecot::start_with(DovecotSettings { format: FORMAT, ..MANY_CONNECTIONS.into() }).await;
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("mail.log");
    std::fs::write(&log, "")?;
    let product = product
        .with("MAILAPI_MAIL__BACKEND", "external")
        .with("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", &dovecot.imap().port().to_string())
        .with("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_USER", Dovecot::MASTER_USER)
        .with("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", Dovecot::MASTER_PASSWORD)
        .with("MAILAPI_MAIL__EXTERNAL__LOG__PATH", &log.display().to_string());
    let site = MailSite::with_people(&product).await?;
    for &messages in size.external_folders {
        let owner = owner(messages);
        dovecot.put_mailbox(&owner, None);
        site.post("/users", &json!({ "email": owner, "password": PASSWORD }), 201).await?;
        fill(dovecot.imap(), &owner, messages).await?;
        same("messages in the folder", site.inbox_total(&owner).await?, messages as u64)?;
        ask(&site, size, &owner, messages, &mut grown).await?;
    }
    if let (Some(&smallest), Some(&largest)) = (size.external_folders.first(), size.external_folders.last()) {
        let mut lists: [Vec<Request>; 2] = Default::default();
        for (messages, list) in [smallest, largest].into_iter().zip(&mut lists) {
            let owner = owner(messages);
            let token = site.user_token(&owner).await?;
            list.push(Request::get(&api(&format!("/mailbox/{owner}/messages")), &token));
        }
        grown.in_turns(&size.plan, "List of 50", lists.map(|list| (&site.server, list))).await?;
    }
    site.stop().await?;
    grown.note(format!(
        "The times include product and Dovecot. Text search is not measured: Dovecot reads message by message. \
         The largest folder has {} messages.",
        whole(size.external_folders.last().copied().unwrap_or_default() as f64)
    ))?;
    Ok(grown)
}

async fn fill(imap: SocketAddr, owner: &str, messages: usize) -> Outcome {
    let (mut session, author) = (Appending::log_in(imap, owner, Dovecot::PASSWORD).await?, Author::new());
    let real = messages.min(REAL);
    for number in 0..real {
        session.append(&author.outside_message(number, owner)).await?;
    }
    let mut there = real;
    while there < messages {
        let count = there.min(messages - there);
        session.copy(count).await?;
        there += count;
    }
    Ok(())
}

async fn ask(site: &MailSite, size: &Size, owner: &str, messages: usize, grown: &mut Grown) -> Outcome {
    let (plan, server) = (&size.plan, &site.server);
    let token = site.user_token(owner).await?;
    let get = |path: &str| Request::get(&api(&format!("/mailbox/{owner}{path}")), &token);
    let mut random = Random::new(SEED);
    let reads = (0..READ).map(|_| get(&format!("/messages/{}", 1 + random.below(messages)))).collect();
    let pages = (0..READ).map(|_| get(&format!("/messages?offset={}", random.below(messages.max(51) - 50)))).collect();
    let fetched = Some("summaries are cached, and the pages of a large folder are seldom read twice");
    for (named, requests) in [
        (("list of 50", None), vec![get("/messages")]),
        (("any page of 50", fetched), pages),
        (("read one", None), reads),
        (("folders", None), vec![get("/folders")]),
    ] {
        grown.http(plan, named, messages, server, requests).await?;
    }
    Ok(())
}
