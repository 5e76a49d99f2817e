//! Aliases: addresses whose mail goes to other addresses.

use crate::{DomainName, EmailAddress, Timestamp, Violations};

/// An alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// Its address. The local part `*` makes it the catch-all of its domain ([`EmailAddress::catch_all_of`]).
    pub address: EmailAddress,
    /// The addresses that receive its mail, each once.
    pub members: Vec<EmailAddress>,
    /// Mailboxes that may send from it, each once.
    pub senders: Vec<EmailAddress>,
    /// Whether it accepts mail.
    pub active: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Alias {
    /// Returns the domain of the address.
    #[must_use]
    pub fn domain(&self) -> DomainName {
        self.address.domain()
    }
}

/// Changes to an alias; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AliasChange {
    /// New members, instead of all former ones.
    pub members: Option<Vec<EmailAddress>>,
    /// New senders, instead of all former ones.
    pub senders: Option<Vec<EmailAddress>>,
    /// Whether it accepts mail.
    pub active: Option<bool>,
}

/// The rule for the members of one alias. Only the store can see loops through other aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MembersRule;

impl MembersRule {
    /// Maximum number of members.
    pub const MAX: usize = 1_000;

    /// Returns the members in their order, each once.
    ///
    /// # Errors
    /// The violations, for `members` or for single members.
    pub fn check(address: &EmailAddress, members: &[EmailAddress]) -> Result<Vec<EmailAddress>, Violations> {
        if members.is_empty() || members.len() > Self::MAX {
            return Err(Violations::of("members", format!("must have 1 to {} addresses", Self::MAX)));
        }
        let (mut kept, mut violations) = (Vec::with_capacity(members.len()), Violations::none());
        let mut seen = std::collections::HashSet::with_capacity(members.len());
        for (place, member) in members.iter().enumerate() {
            if member.is_catch_all() {
                violations.add(format!("members[{place}]"), "must not be a catch-all");
            } else if leads_to(member, address) {
                violations.add(format!("members[{place}]"), Self::LOOP);
            }
            if seen.insert(member) {
                kept.push(member.clone());
            }
        }
        if violations.is_empty() { Ok(kept) } else { Err(violations) }
    }

    /// The message about members from which mail would come back to the alias.
    pub const LOOP: &str = "must not lead back to the alias";
}

/// The rule for the mailboxes that may send from one alias. Only the store knows the mailboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendersRule;

impl SendersRule {
    /// Maximum number of senders: a department. More people write as themselves.
    pub const MAX: usize = 100;

    /// Returns the senders in their order, each once.
    ///
    /// # Errors
    /// The violation, for `senders`.
    pub fn check(alias: &EmailAddress, senders: &[EmailAddress]) -> Result<Vec<EmailAddress>, Violations> {
        if alias.is_catch_all() && !senders.is_empty() {
            return Err(Violations::of("senders", "must be empty for a catch-all, which is no address to send from"));
        }
        let mut seen = std::collections::HashSet::with_capacity(senders.len());
        let kept: Vec<_> = senders.iter().filter(|sender| seen.insert(*sender)).cloned().collect();
        if kept.len() > Self::MAX {
            return Err(Violations::of("senders", format!("must be at most {}", Self::MAX)));
        }
        Ok(kept)
    }

    /// The message about a sender that is no mailbox here.
    pub const UNKNOWN: &str = "must be a user of this server";
}

/// Returns whether mail to a member comes back to the alias at once: it is the same address, perhaps with a tag.
fn leads_to(member: &EmailAddress, alias: &EmailAddress) -> bool {
    member == alias || member.without_tag().as_ref() == Some(alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> EmailAddress {
        text.parse().unwrap()
    }

    fn fields(alias: &str, members: &[&str]) -> Vec<String> {
        let members: Vec<_> = members.iter().map(|member| address(member)).collect();
        let violations = MembersRule::check(&address(alias), &members).unwrap_err();
        violations.all().iter().map(|violation| violation.field.clone()).collect()
    }

    #[test]
    fn no_member_too_many_and_members_that_lead_back_are_refused() {
        let team = "team@a.example";
        assert_eq!(fields(team, &[]), ["members"]);
        let many: Vec<_> = (0..=MembersRule::MAX).map(|n| format!("u{n}@a.example")).collect();
        assert_eq!(fields(team, &many.iter().map(String::as_str).collect::<Vec<_>>()), ["members"]);
        let back = ["ann@a.example", "TEAM@a.example", "team+x@a.example", "*@b.example"];
        assert_eq!(fields(team, &back), ["members[1]", "members[2]", "members[3]"]);
    }

    #[test]
    fn senders_are_few_and_of_no_catch_all() {
        let (team, bob) = (address("team@a.example"), address("bob@a.example"));
        assert_eq!(
            SendersRule::check(&team, &[bob.clone(), address("BOB@a.example")]).unwrap(),
            std::slice::from_ref(&bob)
        );
        assert_eq!(SendersRule::check(&address("*@a.example"), &[]).unwrap(), []);
        let many: Vec<_> = (0..=SendersRule::MAX).map(|n| address(&format!("u{n}@a.example"))).collect();
        for refused in [SendersRule::check(&address("*@a.example"), &[bob]), SendersRule::check(&team, &many)] {
            assert_eq!(refused.unwrap_err().all()[0].field, "senders");
        }
    }

    #[test]
    fn each_member_is_kept_once_and_in_its_order() {
        let members = ["b@a.example", "a@a.example", "B@A.example", "team@b.example"].map(address);
        let kept = MembersRule::check(&address("team@a.example"), &members).unwrap();
        assert_eq!(kept, ["b@a.example", "a@a.example", "team@b.example"].map(address));
    }
}
