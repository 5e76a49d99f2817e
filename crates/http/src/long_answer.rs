//! Streams long texts in a JSON response. Escaping happens while the client reads: a control character takes six bytes
//! in JSON, so a response that is serialized at once can be six times as long as its text.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;

use crate::byte_budget::BytePermit;
use crate::json_text::push_escaped;

/// Amount of text that is escaped at a time.
const STEP: usize = 16 * 1024;

/// A JSON response whose long strings are not escaped yet.
pub(crate) struct LongAnswer(VecDeque<Part>);

enum Part {
    /// JSON, ready to send.
    Written(Bytes),
    /// Unescaped content of a JSON string.
    Text { text: String, at: usize },
}

impl LongAnswer {
    /// Starts with this JSON.
    pub(crate) fn new(written: Vec<u8>) -> Self {
        Self(VecDeque::from([Part::Written(written.into())]))
    }

    /// Adds JSON.
    pub(crate) fn json(mut self, written: &'static str) -> Self {
        self.0.push_back(Part::Written(Bytes::from_static(written.as_bytes())));
        self
    }

    /// Adds a string, or null.
    pub(crate) fn text(mut self, text: Option<String>) -> Self {
        let Some(text) = text else { return self.json("null") };
        self = self.json("\"");
        self.0.push_back(Part::Text { text, at: 0 });
        self.json("\"")
    }

    /// Bytes in memory until the client has read them.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |part: &Part| match part {
            Part::Written(bytes) => bytes.len(),
            Part::Text { text, .. } => text.capacity(),
        };
        self.0.iter().map(bytes).sum()
    }

    /// The response. It keeps its room until it is sent or dropped.
    pub(crate) fn into_response(self, held: BytePermit) -> Response {
        let pieces = Pieces { parts: self.0, _held: held };
        let mut response = Response::new(Body::from_stream(stream::iter(pieces)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Remaining pieces.
struct Pieces {
    parts: VecDeque<Part>,
    _held: BytePermit,
}

impl Iterator for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        next_piece(&mut self.parts).map(Ok)
    }
}

fn next_piece(parts: &mut VecDeque<Part>) -> Option<Bytes> {
    loop {
        match parts.front_mut()? {
            Part::Written(bytes) => {
                let bytes = std::mem::take(bytes);
                parts.pop_front();
                return Some(bytes);
            }
            Part::Text { text, at } if *at < text.len() => {
                let end = text.floor_char_boundary(text.len().min(*at + STEP));
                let piece = escaped(&text[*at..end]);
                *at = end;
                return Some(piece);
            }
            Part::Text { .. } => drop(parts.pop_front()),
        }
    }
}

fn escaped(text: &str) -> Bytes {
    let mut json = Vec::new();
    push_escaped(text, &mut json);
    json.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pieces(answer: LongAnswer) -> Vec<Bytes> {
        let mut parts = answer.0;
        std::iter::from_fn(|| next_piece(&mut parts)).collect()
    }

    #[test]
    fn no_piece_is_much_longer_than_a_step() {
        let answer = LongAnswer::new(b"[".to_vec()).text(Some("\u{1}".repeat(STEP * 5))).json("]");
        let pieces = pieces(answer);
        assert!(pieces.iter().all(|piece| piece.len() <= STEP * 6), "six bytes for a control character");
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), STEP * 5 * 6 + 4);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_was_meant(
            text in prop::option::of("(\\PC|[\u{0}-\u{20}\"\\\\]|☃|😀){0,40}"),
            times in 0_usize..2_000,
        ) {
            let text = text.map(|text| text.repeat(times));
            let expected = json!({ "a": text, "b": null });
            let answer = LongAnswer::new(b"{\"a\":".to_vec()).text(text).json(",\"b\":").text(None).json("}");
            let read: Value = serde_json::from_slice(&pieces(answer).concat()).unwrap();
            prop_assert_eq!(read, expected);
        }
    }
}
