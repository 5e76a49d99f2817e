//! Log lines as JSON objects.
//!
//! Each line is put together once, in memory. The JSON format of `tracing-subscriber` parses the fields of the span
//! again for each line and writes them sorted; see `docs/decisions`.

use std::fmt::{self, Debug};

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

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
        SystemTime.format_time(&mut Writer::new(&mut line))?;
        line.push('"');
        let mut members = Members::after(line);
        members.push("level", event.metadata().level().as_str());
        event.record(&mut members);
        let target = members.target.take();
        members.push("target", target.as_deref().unwrap_or(event.metadata().target()));
        if let Some(span) = context.lookup_current() {
            members.json.extend_from_slice(b",\"span\":{\"name\":");
            members.value(span.name());
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                members.json.extend_from_slice(fields.as_str().as_bytes());
            }
            members.json.push(b'}');
        }
        members.json.extend_from_slice(b"}\n");
        members.write_to(&mut writer)
    }
}

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut members = Members::after(String::with_capacity(USUAL_FIELDS));
        fields.record(&mut members);
        members.write_to(&mut writer)
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

/// Writes fields as members of an object.
struct Members {
    json: Vec<u8>,
    outcome: fmt::Result,
    /// Target of a record of the `log` crate; the bridge to `tracing` has a target of its own.
    target: Option<String>,
}

impl Members {
    fn after(begin: String) -> Self {
        Self { json: begin.into_bytes(), outcome: Ok(()), target: None }
    }

    fn push(&mut self, name: &str, value: impl Serialize) {
        self.json.push(b',');
        self.value(name);
        self.json.push(b':');
        self.value(value);
    }

    fn value(&mut self, value: impl Serialize) {
        let written = serde_json::to_writer(&mut self.json, &value);
        self.outcome = self.outcome.and(written.map_err(|_| fmt::Error));
    }

    fn push_field(&mut self, field: &Field, value: impl Serialize) {
        let name = field.name();
        // The `log.…` fields (module, file, line) have no counterpart in other lines.
        if !name.starts_with("log.") {
            // A raw identifier is logged without its `r#`.
            self.push(name.strip_prefix("r#").unwrap_or(name), value);
        }
    }

    fn write_to(&self, writer: &mut Writer<'_>) -> fmt::Result {
        self.outcome?;
        // One call: the writer is behind two pointers.
        writer.write_str(str::from_utf8(&self.json).map_err(|_| fmt::Error)?)
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push_field(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.target = Some(value.to_owned());
        }
        self.push_field(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_field(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_field(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_field(field, value);
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
            let time = time.as_str().unwrap();
            assert!(time.len() == "2026-11-25T10:00:00.123045Z".len() && time.ends_with('Z'), "{time}");
            time.parse::<mailapi_model::Timestamp>().unwrap();
            line
        };
        String::from_utf8(bytes).unwrap().lines().map(without_time).collect()
    }

    #[test]
    fn a_line_has_the_fields_of_the_event_and_of_its_span() {
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
