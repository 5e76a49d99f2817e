//! Checks of the external user database.

use mailapi_model::EmailAddress;
use mailapi_service::Service;
use mailapi_service::users::{DirectoryProbe, UnknownScheme};

use super::finding::Finding;

const WHAT: &str = "user database";

/// Checks the operator's queries, and returns the first mailbox that they find.
pub(super) async fn users(service: &Service) -> (Option<Finding>, Option<EmailAddress>) {
    match service.probe_directory().await {
        Ok(None) => (None, None),
        Ok(Some(DirectoryProbe { first: None, .. })) => {
            (Some(Finding::unknown(WHAT, "mailbox_query works, but returns no mailbox")), None)
        }
        Ok(Some(DirectoryProbe { first, unknown_schemes })) if unknown_schemes.is_empty() => {
            (Some(Finding::fine(WHAT, "both queries work")), first)
        }
        Ok(Some(DirectoryProbe { first, unknown_schemes })) => {
            let shown: Vec<_> = unknown_schemes.iter().map(shown).collect();
            let why = format!("passwords of these schemes cannot be verified here: {}", shown.join(", "));
            let mend =
                "set default_scheme in [mail.external.users], or hash passwords as SHA512-CRYPT, SSHA512 or BLF-CRYPT";
            (Some(Finding::wrong(WHAT, why, mend)), first)
        }
        Err(error) => {
            let mend = "check that the database runs, that its user may read, and that the queries of \
                        [mail.external.users] fit its tables";
            (Some(Finding::wrong(WHAT, error, mend)), None)
        }
    }
}

fn shown(scheme: &UnknownScheme) -> String {
    let UnknownScheme { name, mailboxes, example } = scheme;
    match mailboxes {
        1 => format!("{name} of {example}"),
        _ => format!("{name} of {mailboxes} mailboxes, such as {example}"),
    }
}
