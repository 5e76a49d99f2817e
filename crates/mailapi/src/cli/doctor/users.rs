//! The user database that is not ours.

use mailapi_model::EmailAddress;
use mailapi_service::Service;
use mailapi_service::users::DirectoryProbe;

use super::finding::Finding;

const WHAT: &str = "user database";

/// Whether the operator's queries work, and the first mailbox that they find.
pub(super) async fn users(service: &Service) -> (Option<Finding>, Option<EmailAddress>) {
    match service.probe_directory().await {
        Ok(None) => (None, None),
        Ok(Some(DirectoryProbe { first: None, .. })) => {
            (Some(Finding::unknown(WHAT, "mailbox_query answers, and there is no mailbox")), None)
        }
        Ok(Some(DirectoryProbe { first, unknown_scheme: Some(scheme) })) => {
            let why = format!("passwords like {scheme} cannot be verified here");
            let mend =
                "set default_scheme in [mail.external.users], or hash passwords as SHA512-CRYPT, SSHA512 or BLF-CRYPT";
            (Some(Finding::wrong(WHAT, why, mend)), first)
        }
        Ok(Some(DirectoryProbe { first, unknown_scheme: None })) => {
            (Some(Finding::fine(WHAT, "both queries work")), first)
        }
        Err(error) => {
            let mend = "see that the database runs, that its user may read, and that the queries of \
                        [mail.external.users] fit its tables";
            (Some(Finding::wrong(WHAT, error, mend)), None)
        }
    }
}
