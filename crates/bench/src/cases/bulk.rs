//! Effect of the bulk commands of one mailbox on other users' sends.

use std::time::{Duration, Instant};

use super::{http_clients, ordinary_sends};
use crate::load::Load;
use crate::mail::READER;
use crate::mail_site::{MailSite, PASSWORD};
use crate::measure::{figures, median};
use crate::outcome::{Failure, Outcome, same};
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;
use crate::soak::Appending;

/// Maximum factor by which sends may become slower.
const MOST: f64 = 3.0;
/// Commands that change all messages of a folder; at the end they are in INBOX again.
const ROUND: &[&str] = &[
    "COPY 1:* Sent",
    "MOVE 1:* Trash",
    "SELECT Sent",
    "STORE 1:* +FLAGS.SILENT (\\Deleted)",
    "EXPUNGE",
    "SELECT Trash",
    "MOVE 1:* INBOX",
    "SELECT INBOX",
];

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = MailSite::with_people(product).await?;
    let requests = ordinary_sends(&site).await?;
    let server = &site.server;
    let mut senders = http_clients(1, server.http, server.process(), &requests, 202).await?;
    let imap = server.imap.ok_or_else(|| Failure::new("the server has no IMAP listener"))?;
    let mut mover = Appending::log_in(imap, READER, PASSWORD).await?;
    fill(&mut mover, scale.bulk).await?;

    senders.run(scale.plan.warm_up).await?;
    let (mut idle, mut busy, mut ratios, mut commands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.plan.rounds {
        let calm = senders.run(scale.plan.window).await?;
        let rounds = all_rounds(&mut mover, scale.plan.window);
        let (took, other) = tokio::try_join!(rounds, senders.run(scale.plan.window))?;
        ratios.push(other.quantile(0.99).as_secs_f64() / calm.quantile(0.99).as_secs_f64());
        idle.push(calm);
        busy.push(other);
        commands.push(took.as_secs_f64());
    }
    same("messages that were moved to and fro", site.inbox_total(READER).await?, scale.bulk as u64)?;
    let (idle, busy) = (figures(&idle), figures(&busy));
    let case = format!(
        "POST /mail/send while another mailbox copies, moves and expunges {} messages ({:.2} s for all of it): p99 \
         {:.2} ms, at rest {:.2} ms",
        scale.bulk,
        median(commands),
        busy.p99.as_secs_f64() * 1e3,
        idle.p99.as_secs_f64() * 1e3
    );
    site.stop().await?;
    Ok(vec![Row::at_most(&case, Unit::Times, median(ratios), MOST)])
}

/// Fills the selected INBOX.
async fn fill(mover: &mut Appending, wanted: usize) -> Outcome {
    mover.append("From: a@bench.test\r\nSubject: moved\r\n\r\ntext\r\n").await?;
    let mut messages = 1;
    while messages < wanted {
        let more = messages.min(wanted - messages);
        mover.copy(more).await?;
        messages += more;
    }
    Ok(())
}

/// Repeats the commands for the length of the window; returns the mean time of one round.
async fn all_rounds(mover: &mut Appending, window: Duration) -> Outcome<Duration> {
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < window {
        for command in ROUND {
            mover.command(command).await?;
        }
        rounds += 1;
    }
    Ok(began.elapsed() / rounds)
}
