//! Memory of the process at rest, per idle connection, and per open mailbox.

use std::time::Duration;

use super::Size;
use super::folders;
use super::grown::{Grown, whole};
use crate::client::http::{Connection, Request};
use crate::load::Client;
use crate::mail_site::{MailSite, PASSWORD, api};
use crate::outcome::{Failure, Outcome};
use crate::server::Product;
use crate::soak::Selecting;

/// Number of messages in the opened mailbox.
const MESSAGES: usize = 10_000;
/// Limits above the defaults for one client.
const MANY: &[(&str, &str)] = &[
    ("MAILAPI_ADVANCED__LISTENERS__MAX_CONNECTIONS_PER_CLIENT", "5000"),
    ("MAILAPI_ADVANCED__LISTENERS__MAX_CONNECTIONS", "5000"),
    ("MAILAPI_ADVANCED__IMAP__MAX_CONNECTIONS_PER_USER", "5000"),
];
/// Time until freed memory is returned and delayed work is done.
const REST: Duration = Duration::from_secs(1);
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Memory", "connections", size);
    let product = MANY.iter().fold(product.clone(), |product, (name, value)| product.with(name, value));
    let site = MailSite::with_people(&product).await?;
    let messages = MESSAGES.min(size.folders.last().copied().unwrap_or(MESSAGES));
    let site = folders::fill(site, &product, messages, &mut grown).await?;
    // Filling the mailbox leaves free memory in the process, so measure a new one.
    let site = site.restart(&product).await?;
    let idle = at_rest(&site).await?;
    grown.note(format!("At rest after a start: {:.1} MiB resident.", idle / MIB))?;
    http(&site, size, &mut grown).await?;
    imap(&site, size, messages, &mut grown).await?;
    site.stop().await?;
    Ok(grown)
}

async fn at_rest(site: &MailSite) -> Outcome<f64> {
    site.server.settle().await?;
    tokio::time::sleep(REST).await;
    Ok(site.server.process().resident()? as f64)
}

/// Measures connections that are idle after one request each.
async fn http(site: &MailSite, size: &Size, grown: &mut Grown) -> Outcome {
    let request = Request::get(&api("/tokens/me"), &site.server.admin);
    // Allocate what the first request needs before the measurement.
    site.connect().await?.json(&request, 200).await?;
    let before = at_rest(site).await?;
    let mut connections: Vec<Connection> = Vec::new();
    for _ in 0..size.idle_connections {
        let mut connection = site.connect().await?;
        connection.json(&request, 200).await?;
        connections.push(connection);
    }
    let each = (at_rest(site).await? - before) / connections.len() as f64;
    grown.note(format!("An idle HTTP connection: {:.1} KiB, over {} of them.", each / KIB, connections.len()))
}

/// Measures mail programs that are idle after login, and then with an open mailbox.
async fn imap(site: &MailSite, size: &Size, messages: usize, grown: &mut Grown) -> Outcome {
    let address = site.server.imap.ok_or_else(|| Failure::new("the server has no IMAP listener"))?;
    let owner = folders::owner(messages);
    Selecting::log_in(address, &owner, PASSWORD).await?.operate(0).await?;
    let before = at_rest(site).await?;
    let mut programs = Vec::new();
    for _ in 0..size.idle_connections / 4 {
        programs.push(Selecting::log_in(address, &owner, PASSWORD).await?);
    }
    let logged_in = at_rest(site).await?;
    let count = programs.len() as f64;
    let each = (logged_in - before) / count;
    grown.note(format!("An idle IMAP connection: {:.1} KiB, over {count} of them.", each / KIB))?;
    for program in &mut programs {
        program.operate(0).await?;
    }
    let open = (at_rest(site).await? - logged_in) / count;
    grown.note(format!(
        "An open mailbox with {} messages: {:.1} KiB more for each connection.",
        whole(messages as f64),
        open / KIB
    ))
}
