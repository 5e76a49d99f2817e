//! Hours of Postfix' log, written at once.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::Size;
use super::grown::{Grown, whole};
use crate::mail_site::MailSite;
use crate::measure::Figures;
use crate::outcome::{Failure, Outcome, same};
use crate::server::Product;

/// Lines in the log per message.
const LINES: usize = 6;
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval of checking whether all lines are read.
const LOOK: Duration = Duration::from_millis(5);
/// A port without a listener: nothing is sent or read.
const NOWHERE: &str = "9";
/// The first queue id: ten hexadecimal digits, as in a Postfix with short queue ids.
const FIRST: usize = 0xA0_0000_0000;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Postfix' log in one go", "lines", size);
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("mail.log");
    let mut file = File::create(&log)?;
    let product = product
        .with("MAILAPI_MAIL__BACKEND", "external")
        .with("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", NOWHERE)
        .with("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", NOWHERE)
        .with("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "none")
        .with("MAILAPI_MAIL__EXTERNAL__LOG__PATH", &log.display().to_string());
    let site = MailSite::empty(&product).await?;
    let mut messages = 0;
    for &lines in size.log {
        let text = lines_of(messages..messages + lines / LINES)?;
        messages += lines / LINES;
        site.server.settle().await?;
        let process = site.server.process();
        process.forget_peak()?;
        let (cpu, began) = (process.cpu()?, Instant::now());
        file.write_all(text.as_bytes())?;
        until(&site, messages).await?;
        let elapsed = began.elapsed();
        let count = (lines / LINES * LINES) as f64;
        let figures = Figures {
            rate: count / elapsed.as_secs_f64(),
            p50: elapsed.div_f64(count),
            p99: elapsed.div_f64(count),
            cpu: (process.cpu()? - cpu).div_f64(count),
            client_busy: 0.0,
        };
        grown.add(("line", Some("a batch changes more pages of the log's indexes")), lines, figures)?;
        grown.note(format!(
            "{} lines were read after {:.1} s; peak memory {:.1} MiB.",
            whole(count),
            elapsed.as_secs_f64(),
            process.peak()? as f64 / MIB
        ))?;
    }
    site.stop().await?;
    Ok(grown)
}

/// Postfix' log lines for delivered messages of other senders.
fn lines_of(messages: std::ops::Range<usize>) -> Outcome<String> {
    let mut text = String::new();
    for number in messages {
        let id = queue_id(number);
        let time = format!("Nov 21 {:02}:{:02}:{:02}", number / 36_000 % 24, number / 600 % 60, number / 10 % 60);
        let mut line = |daemon: &str, words: &str| writeln!(text, "{time} mx postfix/{daemon}[77]: {words}");
        line("smtpd", "connect from client.example[192.0.2.1]")?;
        line("smtpd", &format!("{id}: client=client.example[192.0.2.1]"))?;
        line("cleanup", &format!("{id}: message-id=<{number}@elsewhere.example>"))?;
        line("qmgr", &format!("{id}: from=<ann{}@bench.test>, size=3021, nrcpt=1 (queue active)", number % 500))?;
        line(
            "smtp",
            &format!(
                "{id}: to=<bob{}@far.example>, relay=mx.far.example[192.0.2.9]:25, delay=0.54, delays=0.1/0/0.2/0.24, \
                 dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 4XyZ)",
                number % 3_000
            ),
        )?;
        line("qmgr", &format!("{id}: removed"))?;
    }
    Ok(text)
}

/// Waits until the last of these deliveries is visible in the API; asserts that all are.
async fn until(site: &MailSite, messages: usize) -> Outcome {
    let began = Instant::now();
    let last = format!("/mail/delivery-log?limit=1&queue_id={}", queue_id(messages - 1));
    while site.get(&last).await?["total"] == 0 {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new("the end of the log was never read"));
        }
        tokio::time::sleep(LOOK).await;
    }
    let known = site.get("/mail/delivery-log?limit=1").await?["total"].as_u64();
    same("recorded deliveries", known, Some(messages as u64))
}

fn queue_id(number: usize) -> String {
    format!("{:010X}", FIRST + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_its_lines_and_a_queue_id_of_its_own() {
        let text = lines_of(0..3).unwrap();
        assert_eq!(text.lines().count(), 3 * LINES);
        assert_eq!(text.matches("A000000002: ").count(), LINES - 1);
        assert_eq!(text.matches("status=sent").count(), 3);
    }
}
