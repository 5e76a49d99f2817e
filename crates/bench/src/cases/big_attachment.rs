//! Memory use of a big attachment on its way in and out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::client::http::Request;
use crate::client::smtp::{Connection, Mail};
use crate::mail::{RECEIVER, WRITER};
use crate::mail_site::{MailSite, api};
use crate::outcome::{Failure, Outcome, same};
use crate::random::Random;
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;

/// Maximum memory of the process above its memory at rest.
const GOAL: f64 = 64.0 * 1024.0 * 1024.0;
const SEED: u64 = 50;
/// Bytes per line of base64 (RFC 2045 section 6.8), before encoding.
const LINE: usize = 57;

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = MailSite::for_big_mail(product).await?;
    let bytes = Random::new(SEED).bytes(scale.big_attachment);
    let mut rows = Vec::new();

    let peak = Peak::begin(&site).await?;
    send_by_api(&site, &bytes).await?;
    rows.push(peak.row(&site, "up by POST /mail/send")?);
    let peak = Peak::begin(&site).await?;
    download(&site, 1, bytes.len()).await?;
    rows.push(peak.row(&site, "down")?);
    if let Some(smtp) = site.server.smtp {
        let mail = Mail::new(WRITER, RECEIVER, &message(&bytes));
        let peak = Peak::begin(&site).await?;
        Connection::open(smtp).await?.send(&mail).await?;
        rows.push(peak.row(&site, "up by SMTP")?);
        download(&site, 2, bytes.len()).await?;
    }
    site.stop().await?;
    Ok(rows)
}

/// The memory of a server before an operation.
struct Peak {
    at_rest: u64,
}

impl Peak {
    async fn begin(site: &MailSite) -> Outcome<Self> {
        site.server.settle().await?;
        let process = site.server.process();
        // Only once the server is idle, so that late work of an earlier step does not count.
        process.forget_peak()?;
        Ok(Self { at_rest: process.resident()? })
    }

    fn row(self, site: &MailSite, way: &str) -> Outcome<Row> {
        let above = site.server.process().peak()?.saturating_sub(self.at_rest);
        let case = format!("big attachment {way}: peak memory above that at rest");
        Ok(Row::at_most(&case, Unit::Blob, above as f64, GOAL))
    }
}

async fn send_by_api(site: &MailSite, bytes: &[u8]) -> Outcome {
    let body = format!(
        r#"{{"from":"{WRITER}","to":["{RECEIVER}"],"subject":"big","body":{{"text":"See attached."}},"attachments":[{{"filename":"big.bin","content":"{}"}}]}}"#,
        STANDARD.encode(bytes)
    );
    let request = Request::post_bytes(&api("/mail/send"), &site.server.admin, body.as_bytes());
    site.connect().await?.json(&request, 202).await.map(drop)
}

async fn download(site: &MailSite, uid: u64, bytes: usize) -> Outcome {
    let path = format!("/mailbox/{RECEIVER}/messages/{uid}");
    let message = site.get(&path).await?;
    let index = message["attachments"][0]["index"].as_u64().ok_or_else(|| Failure::new(missing(&message)))?;
    let request = Request::get(&api(&format!("{path}/attachment/{index}")), &site.server.admin);
    let counted = site.connect().await?.count_body(&request).await?;
    same("status and bytes of the big attachment", counted, (200, bytes as u64))
}

fn missing(message: &Value) -> String {
    format!("the big message has no attachment: {}", message["attachments"])
}

/// A message with one attachment, as composed by a mail program.
fn message(bytes: &[u8]) -> String {
    let mut text = format!(
        "From: <{WRITER}>\r\nTo: <{RECEIVER}>\r\nSubject: big\r\nMIME-Version: 1.0\r\nContent-Type: \
         multipart/mixed; boundary=\"=_b\"\r\n\r\n--=_b\r\nContent-Type: text/plain\r\n\r\nSee attached.\r\n\
         --=_b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=\"big.bin\"\r\n\r\n"
    );
    for line in bytes.chunks(LINE) {
        STANDARD.encode_string(line, &mut text);
        text.push_str("\r\n");
    }
    text.push_str("--=_b--\r\n");
    text
}
