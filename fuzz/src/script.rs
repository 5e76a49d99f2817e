//! The two parts of an input: a script of choices, and the octets from outside.

/// Choices of the host. Only the low four bits of an octet count, so that seeds can be written as `0` to `?`.
#[derive(Clone, Copy)]
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// Longer scripts add nothing but noise.
    const MAX_BYTES: usize = 64;

    /// Splits an input: the first line is the script, the rest are the octets from outside.
    pub(crate) fn split(input: &'a [u8]) -> (Self, &'a [u8]) {
        let head = &input[..input.len().min(Self::MAX_BYTES)];
        match head.iter().position(|&byte| byte == b'\n') {
            Some(end) => (Self(&input[..end]), &input[end + 1..]),
            None => (Self(&[]), input),
        }
    }

    /// Returns the choice with this number, 0 to 15. The script repeats.
    pub(crate) fn choice(self, number: usize) -> u8 {
        if self.0.is_empty() { 0 } else { self.0[number % self.0.len()] & 15 }
    }

    /// Returns the length of the piece with this number.
    pub(crate) fn piece(self, number: usize) -> usize {
        [1, 2, 3, 5, 8, 13, 1, 21, 1, 34, 4, 55, 1, 89, 7, 144][usize::from(self.choice(number))]
    }
}
