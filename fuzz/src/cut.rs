//! Where octets from outside are cut into pieces.

use crate::script::Script;

/// The sizes of the pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One piece has all octets.
    None,
    /// Each octet is a piece.
    Octets,
    /// The script has the sizes.
    Script,
}

impl Cut {
    /// Returns the piece with this number, the next one of `rest`.
    pub(crate) fn piece<'a>(self, rest: &'a [u8], script: Script<'_>, number: usize) -> &'a [u8] {
        let length = match self {
            Self::None => rest.len(),
            Self::Octets => 1,
            Self::Script => script.piece(number),
        };
        &rest[..rest.len().min(length)]
    }
}
