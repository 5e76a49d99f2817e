//! Stories of the operations over the real store and the real message store.

mod aliases;
mod app_passwords;
mod closed;
mod directory;
mod discarded;
mod dns;
mod events;
mod fraud;
mod greylist;
mod inbound;
mod log_in;
mod mail_programs;
mod monitoring;
mod names;
mod races;
mod received_mail;
mod recovery;
mod returned_mail;
mod rules;
mod send;
mod signup;
mod spam;
mod tokens;
mod users;
mod verify;
mod watch;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use mailapi_model::{Draft, DraftFields, DraftLimits, Grants, LoginProtocol, TokenValue, Visitor};
use mailapi_service::mail::SendRequest;
use mailapi_service::{Caller, Metrics, Parts, Settings};
use mailapi_testkit::{SeededEntropy, TestApp};

/// A login over HTTP from this machine.
const HERE: Visitor = Visitor { protocol: LoginProtocol::Http, address: IpAddr::V4(Ipv4Addr::LOCALHOST) };

/// A request to send a short text.
fn message(from: &str, to: &[&str]) -> SendRequest {
    let fields = DraftFields {
        from: from.into(),
        to: to.iter().map(ToString::to_string).collect(),
        subject: Some("Hello".into()),
        text: Some("A short text.".into()),
        ..DraftFields::default()
    };
    SendRequest { draft: Draft::parse(fields, &DraftLimits::default()).unwrap(), idempotency: None }
}

/// The caller with this token value.
async fn caller(app: &TestApp, token: &str) -> Caller {
    app.service.authenticate(&TokenValue::from_caller(token)).await.unwrap()
}

/// The parts of a second service on the same accounts and mail server.
fn parts(app: &TestApp) -> Parts {
    Parts {
        store: app.store.clone(),
        backend: app.mail_server.backend(),
        dns: app.dns.clone(),
        fresh_dns: app.dns.clone(),
        zone_dns: app.dns.clone(),
        clock: app.clock.clone(),
        entropy: Arc::new(SeededEntropy::new(9)),
        buffer: app.service.buffer().clone(),
        metrics: Metrics::default(),
        settings: Settings::default(),
    }
}

/// A caller with these grants and no token.
fn with(grants: Grants) -> Caller {
    Caller::without_token(grants)
}
