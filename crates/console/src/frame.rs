//! What every page shows around its content.

use mailapi_model::{Grants, Permission};

use crate::session::Session;

/// The frame of a page.
pub(crate) struct Frame {
    /// The title of the page.
    pub(crate) title: String,
    /// The path of the page, for forms that return to it.
    pub(crate) path: String,
    /// The name of the caller.
    pub(crate) name: String,
    /// What the caller is: an admin, a delegate or a user.
    pub(crate) role: &'static str,
    /// The pages that the caller may open.
    pub(crate) links: Vec<Link>,
    /// What the last change did.
    pub(crate) note: Option<&'static str>,
    /// What a dangerous change asks for again.
    pub(crate) proof: &'static str,
    /// The API calls that do the same as the page.
    pub(crate) calls: Vec<Call>,
}

/// A link of the navigation.
pub(crate) struct Link {
    /// The address of the page.
    pub(crate) path: &'static str,
    /// The name of the page.
    pub(crate) text: &'static str,
    /// Whether it is the page that is shown, or its list.
    pub(crate) is_current: bool,
}

/// An API call.
pub(crate) struct Call {
    /// The method and the path below `/api/v1`.
    pub(crate) operation: &'static str,
    /// Who may call it.
    pub(crate) right: &'static str,
}

/// Who sees a link. The operation behind the page decides for itself.
enum Seen {
    ByAll,
    ByAdmins,
    ByOwners,
    With(Permission),
}

const PAGES: &[(&str, &str, Seen)] = &[
    ("/console", "Overview", Seen::ByAll),
    ("/console/mail", "Mail", Seen::ByAll),
    ("/console/write", "Write", Seen::ByAll),
    ("/console/messages", "Messages sent", Seen::ByAll),
    ("/console/statistics", "Statistics", Seen::ByAll),
    ("/console/queue", "Queue", Seen::ByAdmins),
    ("/console/domains", "Domains", Seen::With(Permission::ManageDomains)),
    ("/console/users", "Users", Seen::With(Permission::ManageUsers)),
    ("/console/aliases", "Aliases", Seen::With(Permission::ManageUsers)),
    ("/console/rules", "Rules", Seen::ByOwners),
    ("/console/permissions", "Permissions", Seen::ByAdmins),
    ("/console/tokens", "Tokens", Seen::ByAll),
    ("/console/webhooks", "Webhooks", Seen::ByAll),
    ("/console/events", "Events", Seen::ByAll),
    ("/console/lockouts", "Lock-outs", Seen::ByAdmins),
    ("/console/account", "Account", Seen::ByOwners),
    ("/console/system", "System", Seen::ByAdmins),
];

impl Frame {
    /// The frame of a page with this title.
    pub(crate) fn new(session: &Session, title: impl Into<String>) -> Self {
        let grants = &session.caller.grants;
        let visible = PAGES.iter().filter(|(_, _, seen)| seen.is_by(grants));
        let links = visible.map(|&(path, text, _)| Link { path, text, is_current: is_current(path, &session.path) });
        Self {
            title: title.into(),
            path: session.path.clone(),
            name: session.caller.name(),
            role: role(grants),
            links: links.collect(),
            note: session.note.map(|note| note.text()),
            proof: session.proof_label(),
            calls: Vec::new(),
        }
    }

    /// Adds an API call that does the same, and who may call it.
    pub(crate) fn call(mut self, operation: &'static str, right: &'static str) -> Self {
        self.calls.push(Call { operation, right });
        self
    }
}

impl Seen {
    fn is_by(&self, grants: &Grants) -> bool {
        match self {
            Self::ByAll => true,
            Self::ByAdmins => grants.admin().is_ok(),
            Self::ByOwners => grants.mailbox().is_some(),
            Self::With(permission) => grants.admin().is_ok() || grants.domains_with(*permission).next().is_some(),
        }
    }
}

fn role(grants: &Grants) -> &'static str {
    match (grants.admin().is_ok(), grants.delegated().is_empty()) {
        (true, _) => "admin",
        (false, false) => "delegate",
        (false, true) => "user",
    }
}

fn is_current(link: &str, path: &str) -> bool {
    let below = || path.strip_prefix(link).is_some_and(|rest| rest.starts_with('/'));
    path == link || (link != "/console" && below())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_below_a_list_belongs_to_it() {
        assert!(is_current("/console/users", "/console/users/ann@a.example"));
        assert!(!is_current("/console", "/console/users"));
        assert!(!is_current("/console/user", "/console/users"));
    }
}
