//! Accounts: the owners of mailboxes.

use crate::{DomainName, EmailAddress, SaveSent, Secret, Timestamp, Violations};

/// A password or its hash, which is never printed.
pub type SecretText = Secret<String>;

/// The account of one mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its address, which is also the login name.
    pub email: EmailAddress,
    /// The display name; may be empty.
    pub name: String,
    /// Whether it may log in and use tokens. A disabled account still receives mail.
    pub active: bool,
    /// The quota in bytes; `None` means unlimited.
    pub quota_bytes: Option<u64>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its record was last changed.
    pub updated_at: Timestamp,
    /// Time of the last login with its password.
    pub last_login_at: Option<Timestamp>,
}

impl Account {
    /// Returns the domain of the address.
    #[must_use]
    pub fn domain(&self) -> DomainName {
        self.email.domain()
    }
}

/// An account to be stored.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The address.
    pub email: EmailAddress,
    /// The display name.
    pub name: String,
    /// The password hash with its scheme in braces, `{SHA512-CRYPT}$6$…`.
    pub password_hash: SecretText,
    /// The quota in bytes.
    pub quota_bytes: Option<u64>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// Changes to an account; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// A new name.
    pub name: Option<String>,
    /// A new quota; the inner `None` removes the limit.
    pub quota_bytes: Option<Option<u64>>,
    /// Which sent messages are copied to the mailbox.
    pub save_sent: Option<SaveSent>,
}

/// The data that a login is checked against.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The address.
    pub email: EmailAddress,
    /// The display name.
    pub name: String,
    /// The stored hash with its scheme.
    pub password_hash: SecretText,
    /// Whether the account may log in.
    pub active: bool,
    /// Number of times the account was disabled. A login that began before the last time stays invalid, even
    /// if the account is enabled again.
    pub sessions_ended: i64,
}

/// The rule for new passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordRule;

impl PasswordRule {
    /// Minimum number of characters.
    pub const MIN_CHARACTERS: usize = 8;
    /// Maximum number of characters: the cost of hashing grows with the length.
    pub const MAX_CHARACTERS: usize = 128;

    /// Returns whether `text` is short enough for a password.
    #[must_use]
    pub fn allows_length(text: &str) -> bool {
        text.chars().nth(Self::MAX_CHARACTERS).is_none()
    }

    /// Checks a new password.
    ///
    /// # Errors
    /// A violation for `field` when it is too short, too long, or contains a control character: a NUL would
    /// end it early in C programs, and a line break cannot be typed at a login.
    pub fn parse(field: &str, text: String) -> Result<SecretText, Violations> {
        if text.chars().count() < Self::MIN_CHARACTERS {
            return Err(Violations::of(field, format!("must have at least {} characters", Self::MIN_CHARACTERS)));
        }
        if !Self::allows_length(&text) {
            return Err(Violations::of(field, format!("must have at most {} characters", Self::MAX_CHARACTERS)));
        }
        if text.chars().any(char::is_control) {
            return Err(Violations::of(field, "must not contain control characters"));
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
