//! Checks of the external user database.

use mailapi_model::EmailAddress;
use mailapi_service::Service;
use mailapi_service::users::{DirectoryProbe, ProbedRows, UnknownScheme};

use super::finding::Finding;

const WHAT: &str = "user database";

/// Checks the operator's queries, and returns the first mailbox that they find.
pub(super) async fn users(service: &Service) -> (Vec<Finding>, Option<EmailAddress>) {
    match service.probe_directory().await {
        Ok(None) => (Vec::new(), None),
        Ok(Some(probe)) => (findings(&probe), probe.first),
        Err(error) => {
            let mend = "check that the database runs, that its user may read, and that the queries of \
                        [mail.external.users] fit its tables; if the error is about a value, compute it in another type, \
                        such as quota::bigint * 1048576 in PostgreSQL";
            (vec![Finding::wrong(WHAT, error, mend)], None)
        }
    }
}

fn findings(probe: &DirectoryProbe) -> Vec<Finding> {
    let mut findings: Vec<_> = wrong(probe).into_iter().chain(noted(probe)).collect();
    if !findings.iter().any(Finding::is_wrong) {
        let found = match (probe.mailboxes, probe.sampled) {
            (0, _) => Finding::unknown(WHAT, "mailbox_query works, but returns no mailbox"),
            (mailboxes, sampled) => {
                Finding::fine(WHAT, format!("both queries work; {mailboxes} mailboxes, passwords of {sampled} checked"))
            }
        };
        findings.insert(0, found);
    }
    findings
}

fn wrong(probe: &DirectoryProbe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let schemes: Vec<_> = probe.unknown_schemes.iter().map(shown).collect();
    if !schemes.is_empty() {
        let sample = if probe.sampled < probe.mailboxes {
            format!(" (in a sample of {} of {} mailboxes)", probe.sampled, probe.mailboxes)
        } else {
            String::new()
        };
        let why = format!("passwords of these hashes cannot be verified here{sample}: {}", schemes.join(", "));
        let mend = "hash passwords as SHA512-CRYPT, SSHA512 or BLF-CRYPT, in a column without padding; if hashes without \
                    a scheme in braces are of one of these, set default_scheme in [mail.external.users]";
        findings.push(Finding::wrong(WHAT, why, mend));
    }
    let mend = "correct the row or password_query; until then, these users cannot log in";
    findings.extend(
        probe.failed_passwords.iter().map(|rows| {
            Finding::wrong(WHAT, format!("password_query fails for {}: {}", named(rows), rows.fault), mend)
        }),
    );
    let mend = "correct the row, or compute its columns in another type, such as quota::bigint * 1048576 in PostgreSQL; \
                until then, the mailbox keeps its former name and quota, or loses access if its state is unknown";
    findings.extend(probe.unreadable.iter().map(|rows| of_rows(Finding::wrong, rows, mend)));
    let mend = "store addresses in lower case, or use LOWER(…) in both queries; until then, these users cannot log in";
    findings.extend(probe.not_found.iter().map(|rows| of_rows(Finding::wrong, rows, mend)));
    findings
}

fn noted(probe: &DirectoryProbe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |rows: &[ProbedRows], advice: &'static str| {
        findings.extend(rows.iter().map(|rows| of_rows(Finding::noted, rows, advice)));
    };
    note(&probe.dropped, "remove the row, or correct its address; blanks and dots at its end count");
    let advice = "use the same conditions in both queries, such as the domain's";
    note(probe.without_password.as_slice(), advice);
    note(
        probe.unknown_quota.as_slice(),
        "return a whole number of bytes; until then, the mailbox keeps its former quota",
    );
    note(probe.small_quota.as_slice(), "the query may return MB; multiply it by 1048576");
    findings
}

/// A finding about rows with the same fault.
fn of_rows<'a>(finding: fn(&'static str, String, &'a str) -> Finding, rows: &ProbedRows, advice: &'a str) -> Finding {
    finding(WHAT, format!("{}: {}", named(rows), rows.fault), advice)
}

/// Names rows. Quotation marks show blanks, and control characters are escaped.
fn named(rows: &ProbedRows) -> String {
    let ProbedRows { rows, examples, .. } = rows;
    let names: Vec<_> = examples.iter().map(|example| format!("{example:?}")).collect();
    let more = rows - examples.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join(", "))
}

fn shown(scheme: &UnknownScheme) -> String {
    let UnknownScheme { name, mailboxes, example } = scheme;
    match mailboxes {
        1 => format!("{name} of {example}"),
        _ => format!("{name} of {mailboxes} mailboxes, such as {example}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(fault: &str, rows: usize, example: &str) -> ProbedRows {
        ProbedRows { fault: fault.to_owned(), rows, examples: vec![example.to_owned()] }
    }

    fn shown_findings(probe: &DirectoryProbe) -> String {
        findings(probe).iter().map(Finding::shown).collect()
    }

    #[test]
    fn each_fault_names_a_row_and_its_remedy() {
        let probe = DirectoryProbe {
            mailboxes: 20_000,
            sampled: 500,
            unknown_schemes: vec![UnknownScheme {
                name: "MD5-CRYPT ($1$)".to_owned(),
                mailboxes: 7,
                example: "ann@example.org".parse().unwrap(),
            }],
            unreadable: vec![rows(
                "its name and quota cannot be computed: integer out of range (22003)",
                1,
                "big@a.org",
            )],
            dropped: vec![rows("its address is not valid", 3, "blank@a.org ")],
            small_quota: Some(rows("its quota is below 1 MiB", 2, "ten@a.org")),
            ..DirectoryProbe::default()
        };
        let shown = shown_findings(&probe);
        for part in [
            "WRONG  user database: passwords of these hashes cannot be verified here (in a sample of 500 of 20000 mailboxes): \
             MD5-CRYPT ($1$) of 7 mailboxes, such as ann@example.org\n",
            "WRONG  user database: \"big@a.org\": its name and quota cannot be computed: integer out of range (22003)\n",
            "note   user database: \"blank@a.org \" and 2 more: its address is not valid\n",
            "note   user database: \"ten@a.org\" and 1 more: its quota is below 1 MiB\n",
            "the query may return MB",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert!(!shown.contains("both queries work"));
    }

    #[test]
    fn working_queries_are_fine_and_an_empty_list_is_unknown() {
        let probe = DirectoryProbe { mailboxes: 2, sampled: 2, ..DirectoryProbe::default() };
        assert!(shown_findings(&probe).starts_with("ok     user database: both queries work; 2 mailboxes"));
        assert!(shown_findings(&DirectoryProbe::default()).starts_with("-      user database: mailbox_query works"));
    }
}
