//! Reads Server-Sent Events (WHATWG HTML section 9.2) as a client does.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;

/// Longer than any event takes: a test without one fails instead of waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a response is an event stream.
pub(super) fn is_one(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// An open event stream.
pub(crate) struct EventStream {
    body: Body,
    /// Text that is not parsed yet.
    rest: String,
    /// The latest `id`, with which a client resumes.
    pub(crate) last_id: String,
}

/// A block of lines of the stream, ended by an empty line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Streamed {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: String,
    /// Whether the block has a comment.
    pub(crate) is_comment: bool,
}

impl Streamed {
    /// The data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl EventStream {
    pub(crate) const fn over(body: Body) -> Self {
        Self { body, rest: String::new(), last_id: String::new() }
    }

    /// Returns the next bytes; `None` at the end of the stream.
    pub(crate) async fn piece(&mut self) -> Option<Bytes> {
        loop {
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("the stream goes on or ends")?;
            if let Ok(bytes) = frame.unwrap().into_data() {
                return Some(bytes);
            }
        }
    }

    /// Returns the next block, also one without an event; `None` at the end of the stream.
    pub(crate) async fn block(&mut self) -> Option<Streamed> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let (block, rest) = (parsed(block), rest.to_owned());
                if !block.id.is_empty() {
                    self.last_id.clone_from(&block.id);
                }
                self.rest = rest;
                return Some(block);
            }
            let piece = self.piece().await?;
            self.rest += std::str::from_utf8(&piece).unwrap();
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Streamed> {
        loop {
            let block = self.block().await?;
            if !block.data.is_empty() {
                return Some(block);
            }
        }
    }
}

fn parsed(block: &str) -> Streamed {
    let mut read = Streamed::default();
    for line in block.lines() {
        match line.split_once(": ").unwrap_or((line, "")) {
            ("id", value) => read.id = value.to_owned(),
            ("event", value) => read.event = value.to_owned(),
            ("data", value) => read.data = value.to_owned(),
            (name, _) if name.starts_with(':') || name.is_empty() => read.is_comment = true,
            (name, _) => panic!("{name} is no field of an event"),
        }
    }
    read
}
