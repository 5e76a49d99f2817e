//! Log lines as JSON objects.
//!
//! Each line is formatted once in memory and written in one piece, so logging costs less than the request. The
//! format of the tracing library parses the fields of a span as JSON and writes them again, twice for each line. It
//! also calls its writer for each piece through two pointers.

use std::fmt::{self, Debug, Write};

use mailapi_model::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::system::microseconds_now;

/// Writes a line for each event: `timestamp`, `level`, the event's own fields, `target`, and in `span` the fields
/// of the enclosing span.
pub(super) struct JsonLines;

/// Writes the fields of a span as members of an object, each after a comma.
pub(super) struct JsonFields;

/// Initial capacity; most lines fit.
const USUAL_LINE: usize = 384;
/// Initial capacity; the fields of most spans fit.
const USUAL_FIELDS: usize = 192;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::with_capacity(USUAL_LINE);
        line.push_str("{\"timestamp\":\"");
        push_time(&mut line, microseconds_now());
        line.push_str("\",\"level\":\"");
        line.push_str(event.metadata().level().as_str());
        line.push('"');
        let mut members = Members::new(&mut line);
        event.record(&mut members);
        let target = members.finish()?;
        line.push_str(",\"target\":");
        push_text(&mut line, target.as_deref().unwrap_or(event.metadata().target()));
        if let Some(span) = context.lookup_current() {
            line.push_str(",\"span\":{\"name\":");
            push_text(&mut line, span.name());
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                line.push_str(fields.as_str());
            }
            line.push('}');
        }
        line.push_str("}\n");
        writer.write_str(&line)
    }
}

/// Appends a time in microseconds since the Unix epoch, such as `2026-11-20T10:15:30.123456Z`.
fn push_time(line: &mut String, micros: i64) {
    let text = Timestamp::from_millis(micros.div_euclid(1000)).to_text();
    line.push_str(text.as_str().trim_end_matches('Z'));
    let below = u8::try_from(micros.rem_euclid(1000) / 10).unwrap_or_default();
    let last = u8::try_from(micros.rem_euclid(10)).unwrap_or_default();
    for digit in [below / 10, below % 10, last] {
        line.push(char::from(b'0' + digit));
    }
    line.push('Z');
}

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut written = String::with_capacity(USUAL_FIELDS);
        let mut members = Members::new(&mut written);
        fields.record(&mut members);
        members.finish()?;
        writer.write_str(&written)
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

/// Writes fields as members of an object.
struct Members<'a> {
    line: &'a mut String,
    outcome: fmt::Result,
    /// Target of a record of the `log` crate; the bridge to `tracing` has a target of its own.
    target: Option<String>,
}

impl<'a> Members<'a> {
    const fn new(line: &'a mut String) -> Self {
        Self { line, outcome: Ok(()), target: None }
    }

    fn finish(self) -> Result<Option<String>, fmt::Error> {
        self.outcome.map(|()| self.target)
    }

    /// Writes the name of a member and returns the buffer for its value; `None` if the field is left out.
    fn member(&mut self, field: &Field) -> Option<&mut String> {
        let name = field.name();
        // The other `log.…` fields (module, file, line) have no counterpart in other lines.
        if self.outcome.is_err() || name.starts_with("log.") {
            return None;
        }
        self.line.push_str(",\"");
        // A raw identifier is logged without its `r#`.
        push_escaped(self.line, name.strip_prefix("r#").unwrap_or(name));
        self.line.push_str("\":");
        Some(self.line)
    }
}

impl Visit for Members<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if let Some(line) = self.member(field) {
            line.push('"');
            let outcome = write!(Escaped(line), "{value:?}");
            line.push('"');
            self.outcome = outcome;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.target = Some(value.to_owned());
        }
        if let Some(line) = self.member(field) {
            push_text(line, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if let Some(line) = self.member(field) {
            line.push_str(itoa::Buffer::new().format(value));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if let Some(line) = self.member(field) {
            line.push_str(itoa::Buffer::new().format(value));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if let Some(line) = self.member(field) {
            line.push_str(if value { "true" } else { "false" });
        }
    }
}

fn push_text(line: &mut String, text: &str) {
    line.push('"');
    push_escaped(line, text);
    line.push('"');
}

/// Returns whether a JSON string must not contain the octet unescaped (RFC 8259 section 7).
const fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn push_escaped(line: &mut String, text: &str) {
    // Almost no text contains one. Testing all bytes without an early exit lets the compiler vectorize the loop.
    if !text.bytes().fold(false, |any, byte| any | is_special(byte)) {
        line.push_str(text);
        return;
    }
    let mut rest = text;
    while let Some(place) = rest.bytes().position(is_special) {
        // All of these bytes are ASCII, so the text is cut between characters.
        let (plain, special) = rest.split_at(place);
        line.push_str(plain);
        match special.as_bytes()[0] {
            b'\n' => line.push_str("\\n"),
            mark @ (b'"' | b'\\') => line.extend(['\\', char::from(mark)]),
            control => line.push_str(&format!("\\u{control:04x}")),
        }
        rest = &special[1..];
    }
    line.push_str(rest);
}

/// Escapes text while it is formatted.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the events logged by `work`, without their times.
    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields)
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let bytes = lines.0.lock().unwrap().clone();
        let without_time = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
            time.as_str().unwrap().parse::<mailapi_model::Timestamp>().unwrap();
            line
        };
        String::from_utf8(bytes).unwrap().lines().map(without_time).collect()
    }

    #[test]
    fn a_line_tells_of_its_time_to_the_microsecond() {
        for (micros, shown) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_795_600_800_123_045, "2026-11-25T10:00:00.123045Z"),
        ] {
            let mut text = String::new();
            push_time(&mut text, micros);
            assert_eq!(text, shown);
        }
    }

    #[test]
    fn a_line_tells_of_the_event_and_of_its_span() {
        let lines = logged(|| {
            tracing::warn!(target: "there", "no span");
            let span = tracing::info_span!("request", id = "r-1", later = tracing::field::Empty, route = %"/\"x\"");
            let _entered = span.enter();
            span.record("later", 7);
            tracing::info!(status = 200_u16, took = -1, ok = true, r#type = ?Some("a\nb"), "answered {}", 1);
        });
        assert_eq!(
            lines,
            [
                json!({ "level": "WARN", "message": "no span", "target": "there" }),
                json!({
                    "level": "INFO", "message": "answered 1", "status": 200, "took": -1, "ok": true,
                    "type": "Some(\"a\\nb\")", "target": module_path!(),
                    "span": { "name": "request", "id": "r-1", "route": "/\"x\"", "later": 7 },
                }),
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_and_comes_back(text in any::<String>()) {
            let lines = logged(|| tracing::info!(text, shown = %text, "{text}"));
            let expected = json!({
                "level": "INFO", "message": text, "text": text, "shown": text, "target": module_path!()
            });
            prop_assert_eq!(lines, [expected]);
        }
    }
}
