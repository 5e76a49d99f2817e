//! Up to a thousand parallel clients, each with a persistent connection and one request in flight.

use std::sync::Arc;

use super::Size;
use super::grown::Grown;
use crate::cases::http_clients;
use crate::client::http::Request;
use crate::load::{Clients, Load};
use crate::mail::READER;
use crate::mail_site::{MailSite, api};
use crate::outcome::{Outcome, same};
use crate::scale::Scale;
use crate::server::Product;

/// Number of messages in the INBOX that is listed.
const MESSAGES: usize = 200;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Clients at once, on kept connections", "clients", size);
    let site = MailSite::with_people(product).await?;
    site.fill(&Scale { messages: MESSAGES, ..crate::scale::SMOKE }).await?;
    let (token, server) = (site.user_token(READER).await?, &site.server);
    let list = format!("/mailbox/{READER}/messages");
    for &clients in size.clients {
        for (name, path) in [("token check", "/tokens/me"), ("list of 50", list.as_str())] {
            let requests: Arc<[Request]> = vec![Request::get(&api(path), &token)].into();
            let clients_of = http_clients(clients, server.http, server.process(), &requests, 200).await?;
            grown.load(&size.plan, (name, None), clients, clients_of).await?;
        }
    }
    fairness(&site, size, &list, &token, &mut grown).await?;
    site.stop().await?;
    Ok(grown)
}

/// Verifies that all of many clients are served, and notes how evenly.
async fn fairness(site: &MailSite, size: &Size, path: &str, token: &str, grown: &mut Grown) -> Outcome {
    let Some(&most) = size.clients.last() else { return Ok(()) };
    let (server, requests) = (&site.server, vec![Request::get(&api(path), token)].into());
    let mut clients: Clients<_> = http_clients(most, server.http, server.process(), &requests, 200).await?;
    let seen = clients.run(size.plan.window).await?;
    let (half, slowest) = (seen.quantile(0.5).as_secs_f64() * 1e3, seen.quantile(1.0).as_secs_f64() * 1e3);
    same("connections that are still open", clients.open(), most)?;
    grown.note(format!(
        "With {most} clients half of the lists took less than {half:.0} ms, and the slowest of all {slowest:.0} ms; \
         no connection was rejected."
    ))
}
