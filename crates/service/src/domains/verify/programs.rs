//! Checks the records by which mail programs find the server of an address (RFC 6186, RFC 8314 section 5.1).

use mailapi_backend::ServiceLocation;

use super::{Context, RecordCheck, RecordStatus, present};
use crate::MailPrograms;

/// A service for mail programs: what it is for, its label in DNS, and its port if that is known.
type Place = (&'static str, &'static str, Option<u16>);

const ELSEWHERE: &str = "The ports of your mail server for mail programs are not known here. Publish SRV records by \
                         hand for the ones that it has (RFC 6186, RFC 8314).";

/// Checks the records of every service that mail programs on other machines can use.
pub(in crate::domains) async fn check(context: &Context<'_>, programs: MailPrograms) -> Vec<RecordCheck> {
    let mut checks = Vec::new();
    for place in places(programs) {
        checks.push(check_place(context, place).await);
    }
    checks
}

fn places(programs: MailPrograms) -> Vec<Place> {
    match programs {
        MailPrograms::Elsewhere => vec![("SUBMISSION", "_submissions._tcp", None), ("IMAP", "_imaps._tcp", None)],
        MailPrograms::BuiltIn { submission, submissions, imap, imaps } => {
            let places = [
                ("SUBMISSION", "_submission._tcp", submission),
                ("SUBMISSION", "_submissions._tcp", submissions),
                ("IMAP", "_imap._tcp", imap),
                ("IMAP", "_imaps._tcp", imaps),
            ];
            places.into_iter().filter(|(_, _, port)| port.is_some()).collect()
        }
    }
}

async fn check_place(context: &Context<'_>, (kind, label, port): Place) -> RecordCheck {
    let to_set = context.name_to_set();
    let expected = match (port, &to_set) {
        (Some(port), None) => format!("0 1 {port} {}.", context.host),
        _ => String::new(),
    };
    let check = RecordCheck::required(kind, format!("{label}.{}", context.domain), expected).advised();
    let locations = match present(context.dns.srv(&check.name).await) {
        Err(error) => return check.unanswered(&error),
        Ok(locations) => locations,
    };
    let found: Vec<_> = locations.iter().map(shown).collect();
    let Some(port) = port else { return check.with(RecordStatus::Undecided, found, ELSEWHERE) };
    if let Some(hint) = to_set {
        return check.with(RecordStatus::Undecided, found, hint);
    }
    if locations.is_empty() {
        let hint = "The record lets mail programs find the server by themselves.";
        return check.with(RecordStatus::Missing, found, hint);
    }
    let hosts: Vec<_> = locations.iter().filter(|at| at.port == port).map(|at| at.target.as_str()).collect();
    match context.this_server_among(&hosts).await {
        Err(why) => check.finding(found).unsure(&why),
        Ok(Some(_)) => check.with(RecordStatus::Ok, found, "Mail programs find this server."),
        Ok(None) => {
            let hint = "Mail programs are sent to another server or port; replace the record unless that is intended.";
            check.with(RecordStatus::Mismatch, found, hint)
        }
    }
}

pub(super) fn shown(location: &ServiceLocation) -> String {
    let ServiceLocation { priority, weight, port, target } = location;
    format!("{priority} {weight} {port} {target}")
}
