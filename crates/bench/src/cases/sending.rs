//! `POST /mail/send` to a local mailbox, compared with the disk floor: 202 means that the message is durable.

use super::{http_clients, ordinary_sends};
use crate::floor::disk::{DiskFloor, Rows};
use crate::mail::RECEIVER;
use crate::mail_site::{MailSite, database, template_of_one_message};
use crate::measure::compare;
use crate::outcome::{Outcome, same};
use crate::report::{Goal, Row};
use crate::scale::Scale;
use crate::server::Product;
use crate::settled::Settled;

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for &concurrency in scale.sending_concurrency {
        rows.extend(at(concurrency, product, scale).await?);
    }
    Ok(rows)
}

async fn at(concurrency: usize, product: &Product, scale: &Scale) -> Outcome<[Row; 2]> {
    let template = template_of_one_message(product).await?;
    let mut floor = DiskFloor::open(&database(template.path()), Rows::Sent, concurrency)?;
    let site = MailSite::with_people(product).await?;
    let requests = ordinary_sends(&site).await?;
    let server = &site.server;
    let clients = http_clients(concurrency, server.http, server.process(), &requests, 202).await?;
    let mut clients = Settled::new(server, clients);
    let comparison = compare(&scale.plan, &mut clients, &mut floor).await?;

    floor.check()?;
    // Statuses and statistics follow the responses; they are complete now.
    let sent = clients.begun() as u64;
    same("messages in the list of sent mail", site.get("/mail/sent?limit=1").await?["total"].as_u64(), Some(sent))?;
    same("delivered messages", site.get("/mail/sent?limit=1&status=sent").await?["total"].as_u64(), Some(sent))?;
    same("messages in the receiver's INBOX", site.inbox_total(RECEIVER).await?, sent)?;
    let caught_up = clients.caught_up(&format!("send at {concurrency}"));
    site.stop().await?;

    let rate = (concurrency == 64).then_some(8_000.0);
    let goal = Goal { rate, ratio: Some(0.5), ..Goal::default() };
    let case = "send, beside the disk floor".to_owned();
    Ok([Row::Compared { case, concurrency, comparison, goal }, caught_up])
}
