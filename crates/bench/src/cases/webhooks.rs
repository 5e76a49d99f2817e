//! Delay of webhooks: from the 202 of a send to the receiver, alone and while another webhook's receiver hangs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use mailapi_http::HttpSettings;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::delays::Moments;
use super::ordinary_sends;
use crate::client::http::{Connection, Request};
use crate::load::Sample;
use crate::mail_site::MailSite;
use crate::outcome::{Failure, Outcome};
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;

/// Connections that send, each at its part of the pace.
const SENDERS: u32 = 8;
/// Events of a message to one local recipient: accepted and delivered.
const EVENTS: [&str; 2] = ["message.accepted", "message.delivered"];
/// Maximum of the 99th percentile in seconds.
const MOST: f64 = 0.1;
/// Maximum time until the receiver that hangs has a connection.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum of memory in bytes that a receiver costs by hanging.
const MOST_MEMORY: f64 = 8.0 * 1024.0 * 1024.0;

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = MailSite::with_people(product).await?;
    let requests = ordinary_sends(&site).await?;
    let receiver = Receiver::start().await?;
    register(&site, receiver.address).await?;
    // The first events fill caches, which must not count as memory of the receiver that hangs.
    receiver.measure(&site, &requests, scale).await?;

    let alone = receiver.measure(&site, &requests, scale).await?;
    let mut hanging = Hanging::start().await?;
    register(&site, hanging.address).await?;
    let beside = receiver.measure(&site, &requests, scale).await?;
    timeout(PATIENCE, hanging.connections.wait_for(|open| *open > 0)).await??;
    site.stop().await?;
    Ok(vec![
        alone.row("", ""),
        beside.row(
            &format!(", while another receiver hangs for {:.0} s", scale.hang.as_secs_f64()),
            &format!(", {:.1} × that without it", beside.p50_ratio(&alone)),
        ),
        Row::at_most(
            "memory of a receiver that hangs: peak above that without it",
            Unit::Blob,
            beside.peak.saturating_sub(alone.peak) as f64,
            MOST_MEMORY,
        ),
    ])
}

async fn register(site: &MailSite, receiver: SocketAddr) -> Outcome {
    let webhook = json!({ "url": format!("http://{receiver}/"), "types": ["message.*"] });
    site.post("/webhooks", &webhook, 201).await.map(drop)
}

/// The figures of one window.
struct Window {
    delays: Sample,
    /// Events per second.
    rate: f64,
    /// Peak memory of the server in bytes.
    peak: u64,
}

impl Window {
    fn row(&self, beside: &str, more: &str) -> Row {
        let case = format!(
            "event at a webhook's receiver after the 202{beside}: p99 of {} at {:.0}/s (p50 {:.1} ms{more})",
            self.delays.latencies.len(),
            self.rate,
            self.delays.quantile(0.5).as_secs_f64() * 1e3
        );
        Row::at_most(&case, Unit::Seconds, self.delays.quantile(0.99).as_secs_f64(), MOST)
    }

    fn p50_ratio(&self, other: &Self) -> f64 {
        self.delays.quantile(0.5).as_secs_f64() / other.delays.quantile(0.5).as_secs_f64().max(1e-6)
    }
}

/// A receiver that answers at once, and notes when each event arrived.
struct Receiver {
    address: SocketAddr,
    seen: Moments,
    serve: AbortHandle,
}

impl Receiver {
    async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, seen) = (listener.local_addr()?, Moments::default());
        let router = Router::new().fallback(receive).with_state(seen.clone());
        let serve = tokio::spawn(async move {
            mailapi_http::serve(listener, router, &HttpSettings::default(), std::future::pending()).await;
        });
        Ok(Self { address, seen, serve: serve.abort_handle() })
    }

    /// Sends at the pace of the scale, and waits until all events have arrived.
    async fn measure(&self, site: &MailSite, requests: &Arc<[Request]>, scale: &Scale) -> Outcome<Window> {
        let process = site.server.process();
        process.forget_peak()?;
        let (answered, began) = (Moments::default(), Instant::now());
        send_at_pace(site, requests, scale, &answered).await?;
        let rate = answered.count() as f64 / began.elapsed().as_secs_f64();
        let delays = self.seen.delays_after(&answered).await?;
        Ok(Window { delays, rate, peak: process.peak()? })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serve.abort();
    }
}

async fn receive(State(seen): State<Moments>, body: Bytes) -> StatusCode {
    let at = Instant::now();
    let Ok(event) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    seen.note(&key(&text(&event["type"]), &text(&event["data"]["message_id"])), at);
    StatusCode::NO_CONTENT
}

fn key(event_type: &str, message_id: &str) -> String {
    format!("{event_type} {message_id}")
}

async fn send_at_pace(site: &MailSite, requests: &Arc<[Request]>, scale: &Scale, answered: &Moments) -> Outcome {
    let messages = scale.webhook_events / u32::try_from(EVENTS.len())?;
    let (period, start) = (Duration::from_secs(1) * SENDERS / messages, tokio::time::Instant::now());
    let mut senders = JoinSet::new();
    for number in 0..SENDERS {
        let (mut connection, requests, answered) = (site.connect().await?, Arc::clone(requests), answered.clone());
        let mut pace = interval_at(start + period * number / SENDERS, period);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = start + scale.hang;
        senders.spawn(async move {
            for request in requests.iter().cycle() {
                if pace.tick().await >= end {
                    break;
                }
                send(&mut connection, request, &answered).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(())
}

async fn send(connection: &mut Connection, request: &Request, answered: &Moments) -> Outcome {
    let answer = connection.json(request, 202).await?;
    let at = Instant::now();
    let id = answer["message_id"].as_str().ok_or_else(|| Failure::new("a 202 without a message_id"))?;
    EVENTS.iter().for_each(|event_type| answered.note(&key(event_type, id), at));
    Ok(())
}

/// A receiver that accepts connections and never answers.
struct Hanging {
    address: SocketAddr,
    /// Number of accepted connections.
    connections: watch::Receiver<usize>,
    accept: AbortHandle,
}

impl Hanging {
    async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, (count, connections)) = (listener.local_addr()?, watch::channel(0));
        let accept = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                open.push(connection);
                count.send_replace(open.len());
            }
        });
        Ok(Self { address, connections, accept: accept.abort_handle() })
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.accept.abort();
    }
}
