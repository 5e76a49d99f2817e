//! The author of a message.

use std::collections::HashSet;

use mailapi_backend::mime::{AddressEntry, Header};

use crate::Surroundings;
use crate::bounds::COMPARED_AUTHORS;
use crate::correspondents::KnownPeople;
use crate::lookalike::{Resemblance, canonical, is_host, is_same_organization, organization};
use crate::report::{AnalyzedSender, Findings};
use crate::sign::SecuritySign;

/// An address of the header.
struct Written {
    name: String,
    /// As written.
    address: String,
    /// As A-labels in lower case.
    domain: String,
}

impl Written {
    fn all(header: &Header<'_>, field: &str) -> Vec<Self> {
        let read = |entry| match entry {
            AddressEntry::Mailbox { name, local_part, domain, .. } if !domain.is_empty() => {
                Some(Self { name, address: format!("{local_part}@{domain}"), domain: canonical(&domain) })
            }
            _ => None,
        };
        // A message has one field of each name (RFC 5322 section 3.6). If it has more, programs show any of them.
        header.all_addresses(field).filter_map(read).collect()
    }

    fn shown(&self) -> String {
        format!("{} <{}>", self.name, self.address)
    }
}

pub(crate) fn examine(
    block: &[u8],
    surroundings: &Surroundings,
    people: &KnownPeople<'_>,
    findings: &mut Findings,
) -> AnalyzedSender {
    let header = Header::of(block);
    let mut authors = Written::all(&header, "From");
    findings.is_partial |= authors.len() > COMPARED_AUTHORS;
    authors.truncate(COMPARED_AUTHORS);
    let mut sender = AnalyzedSender::default();
    let Some(author) = authors.first() else { return sender };
    sender.address = Some(author.address.clone());
    // Mailing lists rewrite authors, and direct replies to the list.
    let is_from_list = header.names().any(|name| name.eq_ignore_ascii_case("List-Id"));
    if !is_from_list {
        examine_names(&authors, people, &mut sender, findings);
        examine_replies(&header, &authors, &mut sender, findings);
    }
    for author in &authors {
        if let Some((own, resemblance)) = surroundings.own_names.imitated(&author.domain) {
            let sign = match resemblance {
                Resemblance::Lookalike => SecuritySign::LookalikeSender,
                Resemblance::Similar => SecuritySign::SimilarSender,
            };
            findings.add(sign, format!("{}, and not {own}", organization(&author.domain)));
            sender.lookalike_of = Some(own.to_string());
        } else if let Some(known) = people.imitated(&author.domain) {
            let evidence = format!("{}, and not {known}", organization(&author.domain));
            findings.add(SecuritySign::LookalikeCorrespondent, evidence);
        }
    }
    sender
}

/// Looks for names that are addresses or names of others.
fn examine_names(authors: &[Written], people: &KnownPeople<'_>, sender: &mut AnalyzedSender, findings: &mut Findings) {
    for author in authors {
        if let Some(named) = domain_in(&author.name).filter(|named| !is_same_organization(named, &author.domain)) {
            findings.add(SecuritySign::NameIsAddress, format!("{}, and not {named}", author.shown()));
            sender.display_name_is_an_address = true;
        }
        if let Some(colleague) = people.named_like(&author.name, &author.address) {
            findings.add(SecuritySign::KnownName, format!("{}, and not {}", author.shown(), colleague.address));
        }
    }
}

/// Looks for replies that go elsewhere.
fn examine_replies(header: &Header<'_>, authors: &[Written], sender: &mut AnalyzedSender, findings: &mut Findings) {
    let organizations: HashSet<_> = authors.iter().map(|author| organization(&author.domain)).collect();
    let replies = Written::all(header, "Reply-To");
    let elsewhere = replies.iter().find(|reply| !organizations.contains(organization(&reply.domain)));
    if let Some((author, reply)) = authors.first().zip(elsewhere) {
        findings.add(SecuritySign::ReplyElsewhere, format!("{}, and replies go to {}", author.shown(), reply.shown()));
        sender.reply_to_differs = true;
    }
}

/// Returns the domain of an address that a name contains.
fn domain_in(name: &str) -> Option<String> {
    let is_outside = |c: char| c.is_whitespace() || "<>()[]\"',;:".contains(c);
    let address = name.split(is_outside).find(|word| word.contains('@'))?;
    let domain = canonical(address.rsplit('@').next()?);
    is_host(&domain).then_some(domain)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Correspondent, KnownNames};

    fn codes(header: &str) -> Vec<&'static str> {
        let own_names = Arc::new(KnownNames::of(["example.org".parse().unwrap()]));
        let person = |name: &str, address: &str| Correspondent { name: name.to_owned(), address: address.to_owned() };
        let correspondents = vec![person("Eve Stone", "eve@example.org"), person("Carl", "carl@partner.net")];
        let surroundings = Surroundings { own_names, correspondents, ..Surroundings::default() };
        let mut findings = Findings::default();
        let people = KnownPeople::of(&surroundings);
        let sender = examine(format!("{header}\r\n\r\n").as_bytes(), &surroundings, &people, &mut findings);
        let report = findings.into_report(Default::default(), sender, vec![], vec![], Default::default());
        report.reasons.iter().map(|reason| reason.sign.code()).collect()
    }

    #[test]
    fn authors_that_pretend_are_found() {
        let cases = [
            ("From: \"service@bank.example.com\" <a@other.net>", &["name_is_address"][..]),
            ("From: Ann Lee [ann@mail.other.net] <a@other.net>", &[]),
            ("From: \"a@b\" <a@other.net>", &[]),
            (
                "From: \"ann@example.com via Tea\" <tea@lists.net>\r\nList-ID: <tea.lists.net>\r\nReply-To: ann@example.com",
                &[],
            ),
            ("From: a@other.net\r\nReply-To: b@mail.other.net", &[]),
            ("From: a@other.net\r\nReply-To: b@example.com", &["reply_elsewhere"]),
            ("From: Ann <ann@examp1e.org>", &["lookalike_sender"]),
            ("From: Ann <ann@example-support.com>", &["similar_sender"]),
            ("From: Ann <ann@example.org>, Bob <bob@mail.exampel.org>", &["similar_sender"]),
            ("From: Ann <ann@example.com>\r\nFrom: Ann <ann@examp1e.org>", &["lookalike_sender"]),
            ("From: Ann <ann@example.com>, \"a@bank.com\" <b@example.net>", &["name_is_address"]),
            ("From: Eve Stone <eve@freemail.com>", &["known_name"]),
            ("From: Eve Stone <list@freemail.com>\r\nList-Id: <list.freemail.com>", &[]),
            ("From: Carl <carl@partner.net>", &[]),
            ("From: Carl <carl@paitner.net>, Carl <carl@\u{440}artner.net>", &["lookalike_correspondent"]),
            ("From: undisclosed:;", &[]),
            ("Subject: none", &[]),
        ];
        for (header, expected) in cases {
            assert_eq!(codes(header), expected, "{header}");
        }
    }
}
