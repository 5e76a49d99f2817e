//! Accounts: the owners of mailboxes.

use crate::{DomainName, EmailAddress, Secret, Timestamp, Violations};

/// A text that never shows itself: a password or the hash of one.
pub type SecretText = Secret<String>;

/// One mailbox's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its address, which is also its log-in name.
    pub email: EmailAddress,
    /// What its owner is called; may be empty.
    pub name: String,
    /// Whether it may log in and use tokens. Mail is taken in for a disabled one all the same.
    pub active: bool,
    /// How much mail it may hold, in octets; none means no limit.
    pub quota_bytes: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its record was last changed.
    pub updated_at: Timestamp,
    /// When it last logged in with its password.
    pub last_login_at: Option<Timestamp>,
}

impl Account {
    /// The domain it belongs to.
    #[must_use]
    pub fn domain(&self) -> DomainName {
        self.email.domain()
    }
}

/// An account to be stored.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Its address.
    pub email: EmailAddress,
    /// What its owner is called.
    pub name: String,
    /// The password's hash with its scheme in braces, `{SHA512-CRYPT}$6$…`.
    pub password_hash: SecretText,
    /// How much mail it may hold, in octets.
    pub quota_bytes: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What is to change of an account; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// A new name.
    pub name: Option<String>,
    /// A new quota; the inner `None` lifts the limit.
    pub quota_bytes: Option<Option<u64>>,
}

/// What a log-in is checked against.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Whose they are.
    pub email: EmailAddress,
    /// What the owner is called.
    pub name: String,
    /// The stored hash with its scheme.
    pub password_hash: SecretText,
    /// Whether the account may log in.
    pub active: bool,
    /// How often the account was disabled: a log-in from before the last time stays invalid after the account is
    /// enabled.
    pub sessions_ended: i64,
}

/// What a new password must fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordRule;

impl PasswordRule {
    /// The fewest characters.
    pub const MIN_CHARACTERS: usize = 8;
    /// Maximum number of characters: the cost of hashing grows with the length.
    pub const MAX_CHARACTERS: usize = 128;

    /// Whether `text` is short enough for a password.
    #[must_use]
    pub fn allows_length(text: &str) -> bool {
        text.chars().nth(Self::MAX_CHARACTERS).is_none()
    }

    /// Takes `text` as a new password.
    ///
    /// # Errors
    /// A violation under `field` when it is too short, too long, or holds a control character (a NUL would end it
    /// early in C programs, a line break could not be typed at a log-in).
    pub fn parse(field: &str, text: String) -> Result<SecretText, Violations> {
        if text.chars().count() < Self::MIN_CHARACTERS {
            return Err(Violations::of(field, format!("must have at least {} characters", Self::MIN_CHARACTERS)));
        }
        if !Self::allows_length(&text) {
            return Err(Violations::of(field, format!("must have at most {} characters", Self::MAX_CHARACTERS)));
        }
        if text.chars().any(char::is_control) {
            return Err(Violations::of(field, "must not hold control characters"));
        }
        Ok(Secret::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_a_huge_and_an_untypable_password_are_refused() {
        for text in ["1234567".to_owned(), "é".repeat(7), "é".repeat(129), "12345678\n".to_owned()] {
            assert!(PasswordRule::parse("password", text).is_err());
        }
        for text in ["12345678".to_owned(), "é".repeat(128)] {
            assert!(PasswordRule::parse("password", text).is_ok());
        }
    }
}
