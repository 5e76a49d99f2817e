//! Secrets, which are never printed.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A password, a key or a token value. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value; every call needs a review.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret<String> {
    fn from(value: String) -> Self {
        Self(value)
    }
}

/// A secret that can be replaced while it is in use; clones share it.
#[derive(Clone)]
pub struct SharedSecret(Arc<RwLock<Secret<String>>>);

impl SharedSecret {
    /// Returns the current secret.
    #[must_use]
    pub fn get(&self) -> Secret<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the secret; returns whether it changed.
    pub fn replace(&self, secret: Secret<String>) -> bool {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *kept != secret;
        *kept = secret;
        differs
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

impl From<Secret<String>> for SharedSecret {
    fn from(secret: Secret<String>) -> Self {
        Self(Arc::new(RwLock::new(secret)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_a_new_secret_and_none_shows_it() {
        let secret = SharedSecret::from(Secret::new("old".to_owned()));
        let clone = secret.clone();
        assert!(!secret.replace(Secret::new("old".to_owned())));
        assert!(secret.replace(Secret::new("new".to_owned())));
        assert_eq!(clone.get().expose(), "new");
        assert!(!format!("{clone:?}").contains("new"));
    }
}
