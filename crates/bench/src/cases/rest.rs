//! Processor time of an idle server, after each event that wakes its background loops.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::smtp::{Connection, Mail};
use crate::mail::{RECEIVER, WRITER};
use crate::mail_site::{MailSite, PASSWORD};
use crate::outcome::{Failure, Outcome};
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::{Product, Server};

/// Maximum processor time at rest, in percent of one processor.
const MOST: f64 = 0.5;
/// The duration of the measurement. The kernel counts in steps of 10 ms: 0.1 percent of this.
const WINDOW: Duration = Duration::from_secs(10);

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = MailSite::with_people(product).await?;
    let server = &site.server;
    let mut rows = vec![after("a start", server).await?];
    command_beside(product, site.directory())?;
    rows.push(after("a command of the command line", server).await?);

    let token = site.user_token(WRITER).await?;
    let message = crate::mail::Author::new().inbox_message(0, scale);
    let request = crate::client::http::Request::post(&crate::mail_site::api("/mail/send"), &token, &message);
    site.connect().await?.json(&request, 202).await?;
    rows.push(after("a message by the API", server).await?);

    let mail = |from: &str| Mail::new(from, RECEIVER, &format!("From: {from}\r\nSubject: Hi\r\n\r\nHi\r\n"));
    Connection::open(there(server.smtp)?).await?.send(&mail("somebody@outside.example")).await?;
    rows.push(after("a message by SMTP", server).await?);

    let mut submission = Connection::open(there(server.submission)?).await?;
    submission.log_in(WRITER, PASSWORD).await?;
    submission.send(&mail(WRITER)).await?;
    drop(submission);
    rows.push(after("a message by submission", server).await?);

    leave_idle_session(there(server.imap)?).await?;
    rows.push(after("a closed IMAP connection", server).await?);
    site.stop().await?;
    Ok(rows)
}

/// The processor time that the server uses once it is idle.
pub(super) async fn after(event: &str, server: &Server) -> Outcome<Row> {
    server.settle().await?;
    let process = server.process();
    let (began, before) = (Instant::now(), process.cpu()?);
    tokio::time::sleep(WINDOW).await;
    let share = (process.cpu()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(Row::at_most(&format!("processor time at rest after {event}"), Unit::Percent, share * 100.0, MOST))
}

/// Runs a command that opens the database.
pub(super) fn command_beside(product: &Product, directory: &Path) -> Outcome {
    let mut command = Command::new(product.binary());
    command.args(["token", "list"]).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
    if command.status()?.success() { Ok(()) } else { Err(Failure::new("`mailapi token list` failed")) }
}

/// Opens an IMAP session with IDLE, and drops the connection.
async fn leave_idle_session(address: std::net::SocketAddr) -> Outcome {
    let mut stream = TcpStream::connect(address).await?;
    for (line, answer) in [
        (format!("a LOGIN {RECEIVER} \"{PASSWORD}\""), "a OK "),
        ("b SELECT INBOX".into(), "b OK "),
        ("c IDLE".into(), "+ "),
    ] {
        stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).contains(answer) {
            if stream.read_buf(&mut heard).await? == 0 {
                return Err(Failure::new(format!("IMAP did not answer `{answer}`")));
            }
        }
    }
    Ok(())
}

fn there<T>(listener: Option<T>) -> Outcome<T> {
    listener.ok_or_else(|| Failure::new("a listener is off"))
}
