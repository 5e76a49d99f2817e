//! The fields of log lines for people.

use std::fmt::{self, Debug};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::terminal_text::shown;

/// Returns the format of fields, with control characters as escapes.
pub(super) fn human_fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    writer.write_str(&shown(&format!("{value:?}")))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn names_of_strangers_send_nothing_to_the_terminal() {
        let written = Written::default();
        let to = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let subscriber = tracing_subscriber::registry().with(layer.fmt_fields(human_fields()));
        tracing::subscriber::with_default(subscriber, || {
            let path = "bad\u{1b}[31m\u{9b}2J\nWARN all is lost";
            tracing::warn!(path = %path, count = 3, name = "ann", "not in the backup: {path}");
        });
        let bytes = written.0.lock().unwrap().clone();
        let line = String::from_utf8(bytes).unwrap();
        let shown = r"bad\u{1b}[31m\u{9b}2J\nWARN all is lost";
        let expected = format!("not in the backup: {shown} path={shown} count=3 name=\"ann\"\n");
        assert!(line.ends_with(&expected) && line.lines().count() == 1, "{line:?}");
    }
}
