//! One name for *has it changed?*

/// Validates a value that was read earlier: the value is unchanged if its validator equals the present one. An ETag does
/// the same (RFC 9110 section 8.8.3).
///
/// Only the reader of a value creates and interprets its validator. Others keep it beside the value and return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Validator([u64; 2]);

impl Validator {
    /// Creates a validator from two numbers. They must differ from those of every other state of the value.
    #[must_use]
    pub const fn new(numbers: [u64; 2]) -> Self {
        Self(numbers)
    }
}
