//! Notes about the last change. A link names a note and cannot contain its text, so no link can make the console show
//! foreign text.

macro_rules! notes {
    ($($variant:ident = $name:literal, $text:literal;)+) => {
        /// What the last change did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Note { $($variant,)+ }

        impl Note {
            /// The name in a link.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The text on the page.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The note with this name.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

impl Note {
    /// The parameter of a link that names the note.
    pub(crate) const PARAMETER: &str = "done";
}

notes! {
    LoggedOut = "logged-out", "You are logged out.";
    Ended = "ended", "The session has ended. Log in again.";
    EndedUnsent = "ended-unsent",
        "The session has ended, so the form was not sent. Log in, then go back to it: the browser keeps what you typed.";
    Retried = "retried", "The message is due now.";
    Held = "held", "The message is on hold.";
    Released = "released", "The message is released.";
    Cancelled = "cancelled", "The message is cancelled; its sender gets no notice.";
    DomainCreated = "domain-created", "The domain is created. Publish its DNS records next.";
    DomainChanged = "domain-changed", "The domain is changed.";
    DomainApproved = "domain-approved", "The domain is approved.";
    DomainDeleted = "domain-deleted", "The domain is deleted.";
    KeyCreated = "key-created", "The new DKIM key signs as soon as its record is seen in DNS.";
    ProviderSet = "provider-set", "The provider accepts the key or the account. Look at the plan next.";
    ProviderForgotten = "provider-forgotten", "The key is forgotten; the records stay.";
    UserCreated = "user-created", "The user is created.";
    UserChanged = "user-changed", "The user is changed.";
    UserDeleted = "user-deleted", "The user and all of its mail are deleted.";
    UserPurged = "user-purged", "All mail of the user is deleted.";
    PasswordChanged = "password-changed", "The password is changed; other sessions have ended.";
    AppPasswordRevoked = "app-password-revoked", "The app password is revoked.";
    PreferencesChanged = "preferences-changed", "The change applies to the next message.";
    SessionEnded = "session-ended", "The session has ended.";
    Unlocked = "unlocked", "The failed logins are forgotten.";
    RuleCreated = "rule-created", "The rule is added.";
    RuleChanged = "rule-changed", "The rule is changed.";
    RuleDeleted = "rule-deleted", "The rule is deleted.";
    RulesOrdered = "rules-ordered", "The order is changed.";
    AliasCreated = "alias-created", "The alias is created.";
    AliasChanged = "alias-changed", "The alias is changed.";
    AliasDeleted = "alias-deleted", "The alias is deleted.";
    Granted = "granted", "The permissions are changed.";
    TokenRevoked = "token-revoked", "The token is revoked.";
    TokenChanged = "token-changed", "The token is changed.";
    WebhookChanged = "webhook-changed", "The webhook is changed.";
    WebhookDeleted = "webhook-deleted", "The webhook is deleted.";
    Replayed = "replayed", "The events are sent again.";
    Refused = "refused", "Every recipient was refused; see below.";
    RefusedDraft = "refused-draft", "Every recipient was refused; see below. The mail is in the drafts.";
    Sent = "sent", "The mail server has the message. Its status follows below.";
    DraftSaved = "draft-saved", "The draft is saved.";
    DraftDeleted = "draft-deleted", "The draft is deleted.";
    NoCookie = "no-cookie",
        "The browser did not keep the session. Use https, or http://localhost in a browser that trusts it.";
}
