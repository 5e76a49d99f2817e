//! Enums whose values have names in the API and the database.

/// Declares such an enum, with `ALL`, `as_str`, `Display`, and `FromStr` with its error.
#[macro_export]
macro_rules! named_values {
    ($(#[$attribute:meta])* $name:ident, $error:ident, $expected:literal {
        $($(#[$value_attribute:meta])* $value:ident = $text:literal,)+
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_attribute])* $value,)+ }

        impl $name {
            /// All values.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// Returns the name in the API and the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        #[doc = concat!("The text is not the name of a [`", stringify!($name), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
        #[error($expected)]
        pub struct $error;

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|value| value.as_str() == text).ok_or($error)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{DkimAlgorithm, Permission};

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in ["", "rsa", "RSA-SHA256", "rsa-sha256 ", "view_mailbox"] {
            let refused = text.parse::<DkimAlgorithm>().map_err(|error| error.to_string());
            assert_eq!(refused, Err("must be rsa-sha256 or ed25519-sha256".to_owned()), "{text}");
        }
        for permission in Permission::ALL {
            assert_eq!(permission.to_string().parse::<Permission>().ok(), Some(permission));
        }
        assert_eq!((Permission::ALL.len(), Permission::ALL[4].as_str()), (5, "send_mail"));
    }
}
