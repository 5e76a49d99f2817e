//! The author of a message.

use mailapi_backend::mime::{AddressEntry, Header};

use crate::Surroundings;
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
        header.addresses(field).into_iter().filter_map(read).collect()
    }

    fn shown(&self) -> String {
        format!("{} <{}>", self.name, self.address)
    }
}

pub(crate) fn examine(block: &[u8], surroundings: &Surroundings, findings: &mut Findings) -> AnalyzedSender {
    let header = Header::of(block);
    let authors = Written::all(&header, "From");
    let mut sender = AnalyzedSender::default();
    let Some(author) = authors.first() else { return sender };
    sender.address = Some(author.address.clone());
    // Mailing lists rewrite authors, and direct replies to the list.
    let is_from_list = header.names().any(|name| name.eq_ignore_ascii_case("List-Id"));
    if let Some(named) =
        domain_in(&author.name).filter(|named| !is_from_list && !is_same_organization(named, &author.domain))
    {
        findings.add(SecuritySign::NameIsAddress, format!("{}, and not {named}", author.shown()));
        sender.display_name_is_an_address = true;
    }
    let replies = Written::all(&header, "Reply-To");
    let is_elsewhere =
        |reply: &&Written| authors.iter().all(|author| !is_same_organization(&reply.domain, &author.domain));
    if let Some(reply) = replies.iter().find(is_elsewhere).filter(|_| !is_from_list) {
        findings.add(SecuritySign::ReplyElsewhere, format!("{}, and replies go to {}", author.shown(), reply.shown()));
        sender.reply_to_differs = true;
    }
    for author in &authors {
        if let Some((own, resemblance)) = surroundings.own_names.imitated(&author.domain) {
            let sign = match resemblance {
                Resemblance::Lookalike => SecuritySign::LookalikeSender,
                Resemblance::Similar => SecuritySign::SimilarSender,
            };
            findings.add(sign, format!("{}, and not {own}", organization(&author.domain)));
            sender.lookalike_of = Some(own.to_string());
        }
    }
    sender
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
    use crate::OwnNames;

    fn codes(header: &str) -> Vec<&'static str> {
        let own_names = Arc::new(OwnNames::of(["example.org".parse().unwrap()]));
        let surroundings = Surroundings { own_names, ..Surroundings::default() };
        let mut findings = Findings::default();
        let sender = examine(format!("{header}\r\n\r\n").as_bytes(), &surroundings, &mut findings);
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
            ("From: undisclosed:;", &[]),
            ("Subject: none", &[]),
        ];
        for (header, expected) in cases {
            assert_eq!(codes(header), expected, "{header}");
        }
    }
}
