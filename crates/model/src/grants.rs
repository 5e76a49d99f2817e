//! Authorization: the only place that decides what a caller may do.
//!
//! An operation that needs a permission takes a value of that permission's type. Only a check of [`Grants`]
//! creates such a value, so a route without the check does not compile.

use crate::{Alias, DomainName, EmailAddress, Permission};

/// The identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// An admin's API token, which is not bound to a mailbox.
    AdminToken,
    /// The owner of this mailbox.
    Mailbox(EmailAddress),
}

/// The permissions of a caller. HTTP callers and SMTP and IMAP logins use the same type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    identity: Identity,
    is_admin: bool,
    delegated: Vec<(Permission, DomainName)>,
}

/// The caller lacks the permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token does not allow this")]
pub struct Denied;

macro_rules! authority {
    ($(#[$doc:meta])* $name:ident($what:ident: $type:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name($type);

        impl $name {
            /// Returns what the permission applies to.
            #[must_use]
            pub const fn $what(&self) -> &$type {
                &self.0
            }
        }
    };
}

authority!(
    /// Permission to send mail from this address.
    SendAs(address: EmailAddress)
);
authority!(
    /// Permission to read this mailbox.
    ReadMailbox(address: EmailAddress)
);
authority!(
    /// Permission to manage the mailboxes of this domain, except those of admins.
    ManageUsers(domain: DomainName)
);
authority!(
    /// Permission to view and change this domain.
    ManageDomain(domain: DomainName)
);
authority!(
    /// Permission to view delivery statistics of this domain.
    ViewStats(domain: DomainName)
);
authority!(
    /// Permission to list, create and revoke the tokens of this mailbox.
    OwnTokens(address: EmailAddress)
);
authority!(
    /// Permission to read and replace the rules of this mailbox.
    OwnRules(address: EmailAddress)
);
authority!(
    /// Permission to save and delete drafts in this mailbox.
    OwnDrafts(address: EmailAddress)
);
authority!(
    /// Permission to list, create and revoke the app passwords of this mailbox.
    ManageAppPasswords(address: EmailAddress)
);

/// Permission to read events: all of them, or those of the caller's own mailbox and of domains with a delegated
/// permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEvents {
    is_admin: bool,
    mailbox: Option<EmailAddress>,
    statistics_of: Vec<DomainName>,
    mailboxes_of: Vec<DomainName>,
}

impl ReadEvents {
    /// Returns whether the permission applies to all events.
    #[must_use]
    pub const fn is_for_all(&self) -> bool {
        self.is_admin
    }

    /// Returns the caller's own mailbox.
    #[must_use]
    pub const fn mailbox(&self) -> Option<&EmailAddress> {
        self.mailbox.as_ref()
    }

    /// Returns the domains with `view_stats`: events about messages that they send.
    #[must_use]
    pub fn statistics_of(&self) -> &[DomainName] {
        &self.statistics_of
    }

    /// Returns the domains with `view_mailbox`: events about messages that their mailboxes receive.
    #[must_use]
    pub fn mailboxes_of(&self) -> &[DomainName] {
        &self.mailboxes_of
    }

    /// Returns whether any event of `domain` may be readable.
    #[must_use]
    pub fn covers_domain(&self, domain: &DomainName) -> bool {
        self.is_admin
            || self.statistics_of.contains(domain)
            || self.mailboxes_of.contains(domain)
            || self.mailbox.as_ref().is_some_and(|mailbox| mailbox.domain() == *domain)
    }

    /// Returns whether any event of `mailbox` may be readable.
    #[must_use]
    pub fn covers_mailbox(&self, mailbox: &EmailAddress) -> bool {
        let domain = mailbox.domain();
        self.is_admin
            || self.mailbox.as_ref() == Some(mailbox)
            || self.statistics_of.contains(&domain)
            || self.mailboxes_of.contains(&domain)
    }
}

/// Permission for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin(());

impl Grants {
    /// Returns the grants of an admin's API token: everything.
    #[must_use]
    pub const fn admin_token() -> Self {
        Self { identity: Identity::AdminToken, is_admin: true, delegated: Vec::new() }
    }

    /// Returns the grants of a mailbox: its own mail, and delegated permissions. An admin's mailbox may do
    /// everything.
    #[must_use]
    pub fn of_mailbox(address: EmailAddress, is_admin: bool, delegated: Vec<(Permission, DomainName)>) -> Self {
        Self { identity: Identity::Mailbox(address), is_admin, delegated }
    }

    /// Returns the identity of the caller.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the caller's own mailbox; `None` for an admin's API token.
    #[must_use]
    pub const fn mailbox(&self) -> Option<&EmailAddress> {
        match &self.identity {
            Identity::AdminToken => None,
            Identity::Mailbox(address) => Some(address),
        }
    }

    /// Returns the delegated permissions, in no particular order.
    #[must_use]
    pub fn delegated(&self) -> &[(Permission, DomainName)] {
        &self.delegated
    }

    /// Returns the domains for which `permission` was delegated to the caller; admins need none.
    pub fn domains_with(&self, permission: Permission) -> impl Iterator<Item = &DomainName> {
        self.delegated.iter().filter(move |(held, _)| *held == permission).map(|(_, domain)| domain)
    }

    /// Checks for permission for everything.
    ///
    /// # Errors
    /// [`Denied`] unless the caller is an admin.
    pub fn admin(&self) -> Result<Admin, Denied> {
        self.is_admin.then_some(Admin(())).ok_or(Denied)
    }

    /// Checks for permission to send from `address`: the caller's own address, any user's address in a domain
    /// with `send_mail`, or any address for admins.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_send_as(&self, address: &EmailAddress, is_user: bool) -> Result<SendAs, Denied> {
        let allowed = if is_user { self.owns_or_holds(address, Permission::SendMail) } else { self.owns(address) };
        allowed.map(|()| SendAs(address.clone()))
    }

    /// Checks for permission to send from an alias: the caller's mailbox is one of its senders, and replies reach it.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_send_as_alias(&self, alias: &Alias) -> Result<SendAs, Denied> {
        let is_named = self.mailbox().is_some_and(|mailbox| alias.senders.contains(mailbox));
        (alias.active && is_named).then(|| SendAs(alias.address.clone())).ok_or(Denied)
    }

    /// Checks for permission to send from an address that no user and no alias has: the caller's own one with a tag.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_send_with_tag(&self, address: &EmailAddress) -> Result<SendAs, Denied> {
        let is_own = self.mailbox().is_some_and(|mailbox| address.without_tag().as_ref() == Some(mailbox));
        is_own.then(|| SendAs(address.clone())).ok_or(Denied)
    }

    /// Checks for permission to read the mail of `address`: the caller's own, or any mailbox in a domain with
    /// `view_mailbox`.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_read(&self, address: &EmailAddress) -> Result<ReadMailbox, Denied> {
        self.owns_or_holds(address, Permission::ViewMailbox).map(|()| ReadMailbox(address.clone()))
    }

    /// Checks for permission to manage the mailboxes of `domain`.
    ///
    /// # Errors
    /// [`Denied`] without `manage_users` there.
    pub fn may_manage_users(&self, domain: &DomainName) -> Result<ManageUsers, Denied> {
        self.holds(Permission::ManageUsers, domain).map(|()| ManageUsers(domain.clone()))
    }

    /// Checks for permission to view and change `domain`.
    ///
    /// # Errors
    /// [`Denied`] without `manage_domains` there.
    pub fn may_manage_domain(&self, domain: &DomainName) -> Result<ManageDomain, Denied> {
        self.holds(Permission::ManageDomains, domain).map(|()| ManageDomain(domain.clone()))
    }

    /// Checks for permission to view the statistics of `domain`.
    ///
    /// # Errors
    /// [`Denied`] without `view_stats` there.
    pub fn may_view_stats(&self, domain: &DomainName) -> Result<ViewStats, Denied> {
        self.holds(Permission::ViewStats, domain).map(|()| ViewStats(domain.clone()))
    }

    /// Returns the permission to read events. Every caller has one, if only for the own mailbox.
    #[must_use]
    pub fn may_read_events(&self) -> ReadEvents {
        let domains = |permission| self.domains_with(permission).cloned().collect();
        ReadEvents {
            is_admin: self.is_admin,
            mailbox: self.mailbox().cloned(),
            statistics_of: domains(Permission::ViewStats),
            mailboxes_of: domains(Permission::ViewMailbox),
        }
    }

    /// Checks for permission to manage the tokens of `address`. Only its owner and admins may; it cannot be
    /// delegated.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_manage_tokens_of(&self, address: &EmailAddress) -> Result<OwnTokens, Denied> {
        self.owns(address).map(|()| OwnTokens(address.clone()))
    }

    /// Checks for permission to manage the app passwords of `address`: the caller's own, or those of any mailbox in a
    /// domain with `manage_users`, except admins' mailboxes.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_manage_app_passwords_of(&self, address: &EmailAddress) -> Result<ManageAppPasswords, Denied> {
        self.owns_or_holds(address, Permission::ManageUsers).map(|()| ManageAppPasswords(address.clone()))
    }

    /// Checks for permission to read and replace the rules of `address`: the caller's own. They show what mail arrives,
    /// and can send it elsewhere, so `manage_users` is not enough.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_manage_rules_of(&self, address: &EmailAddress) -> Result<OwnRules, Denied> {
        self.owns(address).map(|()| OwnRules(address.clone()))
    }

    /// Checks for permission to save and delete drafts of `address`: the caller's own. `view_mailbox` is for reading
    /// only.
    ///
    /// # Errors
    /// [`Denied`] otherwise.
    pub fn may_manage_drafts_of(&self, address: &EmailAddress) -> Result<OwnDrafts, Denied> {
        self.owns(address).map(|()| OwnDrafts(address.clone()))
    }

    fn owns(&self, address: &EmailAddress) -> Result<(), Denied> {
        (self.is_admin || self.mailbox() == Some(address)).then_some(()).ok_or(Denied)
    }

    fn owns_or_holds(&self, address: &EmailAddress, permission: Permission) -> Result<(), Denied> {
        self.owns(address).or_else(|_| self.holds(permission, &address.domain()))
    }

    fn holds(&self, permission: Permission, domain: &DomainName) -> Result<(), Denied> {
        let held = self.is_admin || self.domains_with(permission).any(|held| held == domain);
        held.then_some(()).ok_or(Denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> EmailAddress {
        text.parse().unwrap()
    }

    fn ann_with(permission: Permission) -> Grants {
        Grants::of_mailbox(address("ann@a.example"), false, vec![(permission, "b.example".parse().unwrap())])
    }

    #[test]
    fn a_permission_reaches_no_further_than_its_domain_and_its_verb() {
        for permission in Permission::ALL {
            let ann = ann_with(permission);
            let (bob, eve) = (address("bob@b.example"), address("eve@c.example"));
            assert_eq!(ann.may_send_as(&bob, true).is_ok(), permission == Permission::SendMail);
            assert!(ann.may_send_as(&bob, false).is_err(), "no user has the address");
            assert_eq!(ann.may_read(&bob).is_ok(), permission == Permission::ViewMailbox);
            assert_eq!(ann.may_manage_users(&bob.domain()).is_ok(), permission == Permission::ManageUsers);
            assert_eq!(ann.may_manage_domain(&bob.domain()).is_ok(), permission == Permission::ManageDomains);
            assert_eq!(ann.may_view_stats(&bob.domain()).is_ok(), permission == Permission::ViewStats);
            assert_eq!(ann.may_manage_app_passwords_of(&bob).is_ok(), permission == Permission::ManageUsers);
            assert!(ann.may_manage_app_passwords_of(&eve).is_err());
            assert!(ann.may_manage_tokens_of(&bob).is_err() && ann.may_manage_drafts_of(&bob).is_err());
            assert!(ann.admin().is_err());
            assert!(ann.may_send_as(&eve, true).is_err() && ann.may_read(&eve).is_err());
            assert!(ann.may_manage_users(&eve.domain()).is_err() && ann.may_view_stats(&eve.domain()).is_err());
        }
    }

    #[test]
    fn a_mailbox_owns_itself_and_not_its_domain() {
        let ann = Grants::of_mailbox(address("ann@a.example"), false, Vec::new());
        let neighbour = address("bob@a.example");
        assert!(
            ann.may_send_as(&address("ANN@a.example"), false).is_ok()
                && ann.may_read(&address("ann@a.example")).is_ok()
        );
        assert!(ann.may_send_as(&neighbour, true).is_err() && ann.may_read(&neighbour).is_err());
        assert!(ann.may_manage_users(&neighbour.domain()).is_err());
        assert!(ann.may_manage_tokens_of(&address("ann@a.example")).is_ok());
        assert!(ann.may_manage_app_passwords_of(&address("ann@a.example")).is_ok());
        assert!(ann.may_manage_drafts_of(&address("ann@a.example")).is_ok());
        assert!(ann.may_manage_drafts_of(&neighbour).is_err());
        assert!(ann.may_manage_app_passwords_of(&neighbour).is_err());
    }

    #[test]
    fn a_mailbox_sends_with_its_tags_and_from_aliases_that_name_it() {
        let ann = Grants::of_mailbox(address("ann@a.example"), false, Vec::new());
        assert!(ann.may_send_with_tag(&address("Ann+Shop@a.example")).is_ok());
        for other in ["ann@a.example", "bob+ann@a.example", "ann+x@b.example", "an+n@a.example"] {
            assert!(ann.may_send_with_tag(&address(other)).is_err(), "{other}");
        }
        let (address, created_at) = (address("team@a.example"), crate::Timestamp::from_seconds(0));
        let (members, senders) = (vec!["ann@a.example".parse().unwrap()], Vec::new());
        let team = Alias { address, members: members.clone(), senders, active: true, created_at };
        assert!(ann.may_send_as_alias(&team).is_err(), "a member only");
        let team = Alias { senders: members, ..team };
        assert_eq!(ann.may_send_as_alias(&team).unwrap().address().as_str(), "team@a.example");
        assert!(ann.may_send_as_alias(&Alias { active: false, ..team.clone() }).is_err());
        let neighbour = Grants::of_mailbox("bob@a.example".parse().unwrap(), false, Vec::new());
        assert!(neighbour.may_send_as_alias(&team).is_err());
    }

    #[test]
    fn events_are_read_by_their_owner_and_with_two_permissions() {
        for permission in Permission::ALL {
            let events = ann_with(permission).may_read_events();
            let (bob, eve) = (address("bob@b.example"), address("eve@c.example"));
            let is_held = [Permission::ViewStats, Permission::ViewMailbox].contains(&permission);
            assert!(!events.is_for_all());
            assert_eq!(events.covers_mailbox(&bob), is_held);
            assert_eq!(events.covers_domain(&bob.domain()), is_held);
            assert_eq!(events.statistics_of().contains(&bob.domain()), permission == Permission::ViewStats);
            assert_eq!(events.mailboxes_of().contains(&bob.domain()), permission == Permission::ViewMailbox);
            assert!(events.covers_mailbox(&address("ann@a.example")));
            assert!(!events.covers_mailbox(&address("bob@a.example")), "a neighbour");
            assert!(!events.covers_mailbox(&eve) && !events.covers_domain(&eve.domain()));
        }
        let events = Grants::admin_token().may_read_events();
        assert!(events.is_for_all() && events.covers_mailbox(&address("eve@c.example")));
    }

    #[test]
    fn an_admin_may_do_everything() {
        for admin in [Grants::admin_token(), Grants::of_mailbox(address("root@a.example"), true, Vec::new())] {
            let bob = address("bob@b.example");
            assert!(admin.admin().is_ok() && admin.may_send_as(&bob, false).is_ok() && admin.may_read(&bob).is_ok());
            assert!(admin.may_manage_users(&bob.domain()).is_ok() && admin.may_manage_tokens_of(&bob).is_ok());
            assert!(admin.may_manage_drafts_of(&bob).is_ok());
        }
    }
}
