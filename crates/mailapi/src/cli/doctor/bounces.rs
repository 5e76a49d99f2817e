//! Checks of the bounce mailbox.

use mailapi_backend::Backend;

use super::finding::Finding;
use super::local::output_of;
use crate::config::Config;

const WHAT: &str = "bounces";

/// Checks that bounces that arrive as mail are found.
pub(super) async fn bounces(config: &Config, backend: &Backend) -> Finding {
    let Some((mailbox, delimiter)) = config.mail.external.bounce_mailbox() else {
        return Finding::unknown(
            WHAT,
            "sent to the author of each message; to record delayed bounces, set a mailbox in [mail.external.bounces]",
        );
    };
    if let Err(error) = backend.mailboxes.folders(mailbox).await {
        let mend =
            format!("create the mailbox with `mailapi user add {mailbox}`, or set another in [mail.external.bounces]");
        return Finding::wrong(WHAT, format!("{mailbox} cannot be read: {error}"), mend);
    }
    match output_of("postconf", &["-xh", "recipient_delimiter"]) {
        Some(Ok(delimiters)) if !delimiters.contains(delimiter) => Finding::wrong(
            WHAT,
            format!("Postfix does not deliver addresses with a `{delimiter}` after the mailbox name"),
            format!(
                "run `postconf -e 'recipient_delimiter = {delimiter}{delimiters}' && postfix reload`, and set the same \
                 in Dovecot"
            ),
        ),
        _ => Finding::fine(WHAT, format!("{mailbox} can be read")),
    }
}
