//! A long log written at once: lines that the product reads per second.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use super::sending::{requests, sent, settled};
use super::{External, clients};
use crate::client::http::Request;
use crate::load::Load;
use crate::mail::WRITER;
use crate::mail_site::{MailSite, api};
use crate::outcome::{Failure, Outcome, same};
use crate::report::Row;
use crate::scale::Scale;

/// Minimum number of lines per second.
const GOAL: f64 = 50_000.0;
/// Number of copies of the log lines under the identifiers of foreign messages.
const OTHERS: usize = 9;
/// Messages sent in parallel.
const SENDERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(2);

/// The product sends messages while it follows an empty log. Then all lines of Postfix are written to that log at
/// once, together with the lines of nine times as many foreign messages.
pub(super) async fn measure(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("mail.log");
    fs::write(&log, "")?;
    let site = MailSite::with_people(&external.host.following(&external.product, &log)).await?;
    settled(external).await?;
    let before = fs::metadata(external.host.postfix.log())?.len();
    let requests = requests(&site.user_token(WRITER).await?);
    let mut senders = clients(SENDERS, &site.server, &requests, 202).await?;
    for _ in 0..scale.plan.rounds {
        senders.run(scale.plan.window).await?;
    }
    let of_senders = logged_since(external, before).await?;
    // Its status is the last one to change, so it marks the end of the log.
    let answer = site.connect().await?.json(&requests[0], 202).await?;
    let last = answer["message_id"].as_str().unwrap_or_default().to_owned();
    let of_last = logged_since(external, before + of_senders.len() as u64).await?;
    same("messages that are delivered before the log says so", sent(&site, "&status=sent").await?, 0)?;

    let text = others(&of_senders) + &of_senders + &of_last;
    let lines = text.lines().count();
    let mut file = File::options().append(true).open(&log)?;
    let began = Instant::now();
    file.write_all(text.as_bytes())?;
    until_sent(&site, &last, began).await?;
    let rate = lines as f64 / began.elapsed().as_secs_f64();

    let messages = senders.begun() as u64 + 1;
    same("messages recorded as delivered", sent(&site, "&status=sent").await?, messages)?;
    site.stop().await?;
    let case = format!("Postfix: a log of {lines} lines in one go, {messages} messages of {} ours", messages * 10 - 9);
    Ok(vec![Row::at_least(&case, rate, GOAL)])
}

async fn logged_since(external: &External, place: u64) -> Outcome<String> {
    settled(external).await?;
    let text = fs::read_to_string(external.host.postfix.log())?;
    Ok(text.get(usize::try_from(place)?..).unwrap_or_default().to_owned())
}

async fn until_sent(site: &MailSite, id: &str, began: Instant) -> Outcome {
    let mut connection = site.connect().await?;
    let request = Request::get(&api(&format!("/mail/{id}/status")), &site.server.admin);
    while connection.json(&request, 200).await?["status"] != "sent" {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new("the end of the log was never read"));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Copies the lines under other queue ids and Message-IDs.
fn others(lines: &str) -> String {
    let mut text = String::with_capacity(lines.len() * (OTHERS + 1));
    for copy in 0..OTHERS {
        for line in lines.lines() {
            text.push_str(&as_of_another(line, copy));
            text.push('\n');
        }
    }
    text
}

fn as_of_another(line: &str, copy: usize) -> String {
    let line = line.replace("message-id=<", &format!("message-id=<{copy}."));
    match line.split_once("]: ") {
        // Queue ids begin with a digit, and these do too.
        Some((before, after)) if begins_with_queue_id(after) => format!("{before}]: {}{after}", copy + 1),
        _ => line,
    }
}

fn begins_with_queue_id(text: &str) -> bool {
    let id = text.split(':').next().unwrap_or_default();
    id.len() >= 10 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_those_of_other_messages() {
        let line = "Nov 21 10:00:00 mx postfix/cleanup[7]: 4dDx2R0Lq6z4x: message-id=<a@b>";
        let other = "Nov 21 10:00:00 mx postfix/cleanup[7]: 34dDx2R0Lq6z4x: message-id=<2.a@b>";
        assert_eq!(as_of_another(line, 2), other);
        let line = "Nov 21 10:00:00 mx postfix/smtpd[7]: connect from unknown[127.0.0.1]";
        assert_eq!(as_of_another(line, 2), line);
        assert_eq!(others("one\ntwo\n").lines().count(), 2 * OTHERS);
    }
}
