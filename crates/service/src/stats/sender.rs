//! Visibility of counts by sender.

use std::str::FromStr;

use mailapi_model::{AddressError, Denied, DomainName, EmailAddress, Grants, Permission};
use mailapi_store::SentScope;

/// A filter for senders: a domain or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// All senders in this domain.
    Domain(DomainName),
    /// This address.
    Address(EmailAddress),
}

impl FromStr for Sender {
    type Err = AddressError;

    /// Parses an address if there is an `@`, else a domain.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('@') { text.parse().map(Self::Address) } else { text.parse().map(Self::Domain) }
    }
}

/// The visible scopes of `sender`, or of all senders. An admin sees all mail, others that of domains where they have
/// `view_stats`, and of their own mailbox. The scopes do not overlap.
///
/// # Errors
/// [`Denied`] if none of the named sender's mail is visible.
pub(super) fn visible(grants: &Grants, sender: Option<&Sender>) -> Result<Vec<SentScope>, Denied> {
    match sender {
        Some(Sender::Address(address)) => of_address(grants, address).map(|scope| vec![scope]),
        Some(Sender::Domain(domain)) => of_domain(grants, domain).map(|scope| vec![scope]),
        None if grants.admin().is_ok() => Ok(vec![SentScope::All]),
        None => Ok(of_everybody(grants)),
    }
}

fn of_address(grants: &Grants, address: &EmailAddress) -> Result<SentScope, Denied> {
    if grants.mailbox() != Some(address) {
        grants.may_view_stats(&address.domain())?;
    }
    Ok(SentScope::Address(address.clone()))
}

/// Without the right to the whole domain, only the caller's own mail is visible.
fn of_domain(grants: &Grants, domain: &DomainName) -> Result<SentScope, Denied> {
    let own = grants.mailbox().filter(|mailbox| mailbox.domain() == *domain);
    match (grants.may_view_stats(domain), own) {
        (Ok(right), _) => Ok(SentScope::Domain(right.domain().clone())),
        (Err(_), Some(own)) => Ok(SentScope::Address(own.clone())),
        (Err(denied), None) => Err(denied),
    }
}

fn of_everybody(grants: &Grants) -> Vec<SentScope> {
    let mut domains: Vec<DomainName> = grants.domains_with(Permission::ViewStats).cloned().collect();
    domains.sort_unstable();
    domains.dedup();
    let own = grants.mailbox().filter(|mailbox| !domains.contains(&mailbox.domain())).cloned();
    domains.into_iter().map(SentScope::Domain).chain(own.map(SentScope::Address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann(delegated: &[(Permission, &str)]) -> Grants {
        let delegated = delegated.iter().map(|(permission, domain)| (*permission, domain.parse().unwrap())).collect();
        Grants::of_mailbox("ann@a.example".parse().unwrap(), false, delegated)
    }

    fn domain(name: &str) -> SentScope {
        SentScope::Domain(name.parse().unwrap())
    }

    fn address(text: &str) -> SentScope {
        SentScope::Address(text.parse().unwrap())
    }

    fn seen(grants: &Grants, sender: &str) -> Result<Vec<SentScope>, Denied> {
        let sender = (!sender.is_empty()).then(|| sender.parse().unwrap());
        visible(grants, sender.as_ref())
    }

    #[test]
    fn a_foreign_sender_is_out_of_sight() {
        let ann = ann(&[(Permission::ViewStats, "b.example"), (Permission::ManageUsers, "c.example")]);
        for sender in ["c.example", "bob@c.example", "bob@a.example"] {
            assert_eq!(seen(&ann, sender), Err(Denied), "{sender}");
        }
    }

    #[test]
    fn ones_own_mail_and_delegated_domains_are_seen() {
        let ann = ann(&[(Permission::ViewStats, "b.example")]);
        assert_eq!(seen(&ann, ""), Ok(vec![domain("b.example"), address("ann@a.example")]));
        assert_eq!(seen(&ann, "a.example"), Ok(vec![address("ann@a.example")]), "of the own domain only the own mail");
        assert_eq!(seen(&ann, "ANN@a.example"), Ok(vec![address("ann@a.example")]));
        assert_eq!(seen(&ann, "b.example"), Ok(vec![domain("b.example")]));
        assert_eq!(seen(&ann, "bob@b.example"), Ok(vec![address("bob@b.example")]));
    }

    #[test]
    fn no_mail_is_seen_twice() {
        let ann = ann(&[(Permission::ViewStats, "a.example"), (Permission::ViewStats, "a.example")]);
        assert_eq!(seen(&ann, ""), Ok(vec![domain("a.example")]));
    }

    #[test]
    fn an_admin_sees_everybody() {
        for admin in [Grants::admin_token(), Grants::of_mailbox("ann@a.example".parse().unwrap(), true, vec![])] {
            assert_eq!(seen(&admin, ""), Ok(vec![SentScope::All]));
            assert_eq!(seen(&admin, "c.example"), Ok(vec![domain("c.example")]));
            assert_eq!(seen(&admin, "bob@c.example"), Ok(vec![address("bob@c.example")]));
        }
    }
}
