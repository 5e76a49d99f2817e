//! Reading from Dovecot, compared with a raw IMAP client that requests the same data.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailapi_testkit::Dovecot;

use super::super::reading::unwrapped;
use super::{External, clients};
use crate::client::http::Request;
use crate::floor::imap::{self, ImapClient, command};
use crate::load::Clients;
use crate::mail::{self, Author, PLANTED, READER};
use crate::mail_site::{MailSite, api};
use crate::measure::compare;
use crate::outcome::{Failure, Outcome, same};
use crate::random::Random;
use crate::report::{Goal, Row};
use crate::scale::Scale;
use crate::server::Server;

const PAGE: usize = 50;
/// Number of pages requested in turn.
const PAGES: usize = 500;
const SEED: u64 = 11;
/// The IMAP items of a page.
const SUMMARY: &str = "(UID FLAGS RFC822.SIZE INTERNALDATE ENVELOPE BODYSTRUCTURE)";
/// The IMAP items of a message.
const MESSAGE: &str = "(UID FLAGS RFC822.SIZE INTERNALDATE BODY.PEEK[])";

/// Requests pages anywhere in the folder from a product without a cache of summaries.
pub(super) async fn list(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let forgetful = external.product.with("MAILAPI_ADVANCED__EXTERNAL_MAILBOXES__SUMMARY_CACHE_BYTES", "0");
    let site = MailSite::with_people(&external.host.in_front(&forgetful)).await?;
    let reader = site.user_token(READER).await?;
    let (mut requests, mut commands, mut random) = (Vec::new(), Vec::new(), Random::new(SEED));
    for _ in 0..PAGES {
        let offset = random.below(scale.messages - PAGE + 1);
        let last = scale.messages - offset;
        let path = format!("/mailbox/{READER}/messages?limit={PAGE}&offset={offset}");
        requests.push(Request::get(&api(&path), &reader));
        commands.push(command(&format!("FETCH {}:{last} {SUMMARY}", last + 1 - PAGE)));
    }
    same_page(external, &site.server, &requests[0], &commands[0]).await?;
    let added = Goal { added_p50: Some(Duration::from_micros(300)), ..Goal::default() };
    let goals = [(1, added), (16, ratio(0.9))];
    let work = Work { name: "Dovecot: list of 50, first time", goals: &goals, requests, commands };
    let rows = work.measure(external, &site.server, scale).await?;
    site.stop().await?;
    Ok(rows)
}

/// Requests the newest page repeatedly.
pub(super) async fn list_again(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let requests = vec![external.request(&format!("/messages?limit={PAGE}"))];
    let commands = vec![command(&format!("FETCH {}:{} {SUMMARY}", scale.messages + 1 - PAGE, scale.messages))];
    let server = &external.site.server;
    same_page(external, server, &requests[0], &commands[0]).await?;
    let goals = [(1, ratio(5.0)), (16, ratio(5.0))];
    let work = Work { name: "Dovecot: list of 50, seen before", goals: &goals, requests, commands };
    work.measure(external, server, scale).await
}

pub(super) async fn read(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let (mut connection, author) = (external.site.connect().await?, Author::new());
    let mut floor = floor_client(external, &Arc::default()).await?;
    let requests: Vec<Request> =
        external.messages.iter().map(|(uid, _)| external.request(&format!("/messages/{uid}"))).collect();
    let commands: Vec<String> =
        external.messages.iter().map(|(uid, _)| command(&format!("UID FETCH {uid} {MESSAGE}"))).collect();
    for ((_, number), (request, command)) in external.messages.iter().zip(requests.iter().zip(&commands)).take(20) {
        let message = connection.json(request, 200).await?;
        let text = unwrapped(&author.inbox_message(*number, scale)["body"]["text"]);
        same("the text that was read", unwrapped(&message["body"]["text"]), text)?;
        let stored = author.stored_message(*number, scale);
        same("the message that IMAP shows", imap::literal(&floor.answer(command).await?), Some(stored.as_bytes()))?;
    }
    let goals = [(1, ratio(0.8)), (16, ratio(0.8))];
    let work = Work { name: "Dovecot: read one", goals: &goals, requests, commands };
    work.measure(external, &external.site.server, scale).await
}

pub(super) async fn attachment(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let (mut connection, mut floor) = (external.site.connect().await?, floor_client(external, &Arc::default()).await?);
    let (mut requests, mut commands) = (Vec::new(), Vec::new());
    for (uid, number) in external.messages.iter().filter(|(_, number)| mail::has_attachment(*number, scale)) {
        let message = connection.json(&external.request(&format!("/messages/{uid}")), 200).await?;
        let index = message["attachments"][0]["index"].as_u64().ok_or_else(|| Failure::new("no attachment"))?;
        let request = external.request(&format!("/messages/{uid}/attachment/{index}"));
        let command = command(&format!("UID FETCH {uid} (BODY.PEEK[2])"));
        let (_, bytes) = connection.exchange(&request).await?;
        let expected = mail::attachment(*number);
        same("an attachment", bytes == expected, true)?;
        let answer = floor.answer(&command).await?;
        // IMAP returns the part in base64 with line ends.
        let encoded: Vec<u8> = imap::literal(&answer).unwrap_or_default().to_vec();
        let digits: Vec<u8> = encoded.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        same("an attachment as IMAP shows it", STANDARD.decode(digits)? == expected, true)?;
        requests.push(request);
        commands.push(command);
    }
    let goals = [(1, ratio(0.8)), (16, ratio(0.8))];
    let work = Work { name: "Dovecot: attachment", goals: &goals, requests, commands };
    work.measure(external, &external.site.server, scale).await
}

pub(super) async fn search(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let server = &external.site.server;
    let requests = vec![external.request(&format!("/search?q={PLANTED}"))];
    let commands = vec![command(&format!("UID SEARCH TEXT {PLANTED}"))];
    let planted = (0..scale.messages).filter(|number| mail::is_planted(*number, scale)).count();
    // The first search may trigger the creation of an index.
    external.site.connect().await?.json(&requests[0], 200).await?;
    server.settle().await?;
    let hits = external.site.connect().await?.json(&requests[0], 200).await?;
    let mut uids: Vec<u64> =
        hits["messages"].as_array().into_iter().flatten().filter_map(|hit| hit["uid"].as_u64()).collect();
    uids.sort_unstable();
    let found = imap::found(&floor_client(external, &Arc::default()).await?.answer(&commands[0]).await?);
    same("hits", uids.len(), planted)?;
    same("hits of both sides", &uids, &found)?;
    let goals = [(1, ratio(200.0)), (16, ratio(200.0))];
    let name = format!("Dovecot: search in {} messages, {planted} hits", scale.messages);
    Work { name: &name, goals: &goals, requests, commands }.measure(external, server, scale).await
}

/// The requests of the product and the commands of the floor.
struct Work<'a> {
    name: &'a str,
    goals: &'a [(usize, Goal)],
    requests: Vec<Request>,
    commands: Vec<String>,
}

impl Work<'_> {
    async fn measure(self, external: &External, server: &Server, scale: &Scale) -> Outcome<Vec<Row>> {
        let (requests, commands): (Arc<[_]>, Arc<[_]>) = (self.requests.into(), self.commands.into());
        let mut rows = Vec::new();
        for &concurrency in scale.concurrency {
            let mut floor_clients = Vec::with_capacity(concurrency);
            for _ in 0..concurrency {
                floor_clients.push(floor_client(external, &commands).await?);
            }
            let mut floor = Clients::new(floor_clients, external.host.dovecot_process()?);
            let mut ours = clients(concurrency, server, &requests, 200).await?;
            let comparison = compare(&scale.plan, &mut ours, &mut floor).await?;
            let goal = self.goals.iter().find(|(at, _)| *at == concurrency).map(|(_, goal)| *goal).unwrap_or_default();
            rows.push(Row::Compared { case: self.name.to_owned(), concurrency, comparison, goal });
        }
        Ok(rows)
    }
}

async fn floor_client(external: &External, commands: &Arc<[String]>) -> Outcome<ImapClient> {
    ImapClient::open(external.host.dovecot.imap(), READER, Dovecot::PASSWORD, commands).await
}

/// Asserts that both sides return equally many messages of the same folder.
async fn same_page(external: &External, server: &Server, request: &Request, command: &str) -> Outcome {
    let mut connection = crate::client::http::Connection::open(server.http).await?;
    let list = connection.json(request, 200).await?;
    same("messages in the list", list["total"].as_u64(), Some(external.messages.len() as u64))?;
    let answer = floor_client(external, &Arc::default()).await?.answer(command).await?;
    same("messages on the page", list["messages"].as_array().map(Vec::len), Some(imap::fetched(&answer)))
}

fn ratio(ratio: f64) -> Goal {
    Goal { ratio: Some(ratio), ..Goal::default() }
}
