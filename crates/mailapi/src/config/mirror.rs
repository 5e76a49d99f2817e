//! Sections that mirror the settings of another crate, so that each default has one home.

use std::time::Duration;

use super::values::{ByteSize, HumanDuration};

/// Conversion between the form of a setting in a file and its type in the other crate.
pub(super) trait Shows<T>: Sized {
    /// Converts to the form in a file.
    fn show(value: T) -> Self;
    /// Converts to the type in the other crate.
    fn value(&self) -> T;
}

impl Shows<Duration> for HumanDuration {
    fn show(value: Duration) -> Self {
        Self(value)
    }

    fn value(&self) -> Duration {
        self.0
    }
}

impl Shows<usize> for ByteSize {
    fn show(value: usize) -> Self {
        Self(value as u64)
    }

    fn value(&self) -> usize {
        self.as_usize()
    }
}

impl Shows<u64> for ByteSize {
    fn show(value: u64) -> Self {
        Self(value)
    }

    fn value(&self) -> u64 {
        self.0
    }
}

impl<S: Shows<T>, T> Shows<Vec<T>> for Vec<S> {
    fn show(value: Vec<T>) -> Self {
        value.into_iter().map(S::show).collect()
    }

    fn value(&self) -> Vec<T> {
        self.iter().map(S::value).collect()
    }
}

macro_rules! shown_as_they_are {
    ($($kind:ty),+) => {
        $(impl Shows<$kind> for $kind {
            fn show(value: $kind) -> Self {
                value
            }

            fn value(&self) -> $kind {
                *self
            }
        })+
    };
}

shown_as_they_are!(bool, u32, u64, usize);

/// Defines a section from fields of a settings struct: the same names, the struct's own defaults, and `apply`,
/// which copies configured values into the struct. A struct without `Default` gives a base value after `as`. Keys
/// that are no field of it follow under `with`, with their defaults.
macro_rules! mirror {
    (@defaults) => { Default::default() };
    (@defaults $base:expr) => { $base };
    (
        $(#[$doc:meta])*
        $name:ident of $settings:ty $(as ($base:expr))? { $($field:ident: $shown:ty),+ $(,)? }
        $(with { $($own:ident: $type:ty = $default:expr),+ $(,)? })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub(crate) struct $name {
            $($(pub(crate) $own: $type,)+)?
            $(pub(crate) $field: $shown,)+
        }

        impl Default for $name {
            fn default() -> Self {
                let defaults: $settings = $crate::config::mirror::mirror!(@defaults $($base)?);
                Self {
                    $($($own: $default,)+)?
                    $($field: $crate::config::mirror::Shows::show(defaults.$field),)+
                }
            }
        }

        impl $name {
            /// Copies the section's settings into those of the other crate.
            pub(super) fn apply(&self, settings: &mut $settings) {
                $(settings.$field = $crate::config::mirror::Shows::value(&self.$field);)+
            }
        }
    };
}

pub(super) use mirror;
