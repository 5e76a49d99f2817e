//! User name and password of an AUTH exchange.

use std::fmt;

/// A password. `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// Returns the password in clear text, for the code that verifies or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

/// Credentials of AUTH PLAIN or LOGIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The authentication identity as received, usually a mailbox address.
    pub username: String,
    /// The password as received.
    pub password: Password,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_password() {
        let credentials = Credentials { username: "ann".to_owned(), password: Password::new("hunter2") };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
