//! Hashes of a message's body for DKIM (RFC 6376 section 3.4), piece by piece.
//!
//! mail-auth hashes only a body in memory. Its relaxed form also keeps trailing blank lines with spaces,
//! contrary to section 3.4.4, and would reject valid signatures.

use std::io;
use std::sync::LazyLock;

use aws_lc_rs::digest::{Context, SHA256};
use mailapi_model::Blob;
use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

/// Bytes read at once from a message on disk, and passed at once to the hash.
const PIECE: usize = 64 * 1024;

/// The capacity at first for the canonical form of a short body.
const SHORT: usize = 4 * 1024;

static TWO_SPACES: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("  "));

/// The canonical forms that the signatures of a message use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Forms {
    pub(super) simple: bool,
    pub(super) relaxed: bool,
}

/// The SHA-256 hashes of one body. That of a form that no signature uses is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BodyHashes {
    pub(super) simple: Vec<u8>,
    pub(super) relaxed: Vec<u8>,
}

impl BodyHashes {
    /// Reads a body. Blocks unless it is in memory.
    pub(super) fn of(body: &Blob, forms: Forms) -> io::Result<Self> {
        let mut simple = forms.simple.then(|| Canonical::new(Form::Simple));
        let mut relaxed = forms.relaxed.then(|| Canonical::new(Form::Relaxed));
        for piece in body.pieces(PIECE) {
            let piece = piece?;
            for form in [&mut simple, &mut relaxed].into_iter().flatten() {
                form.write(&piece);
            }
        }
        let hash = |form: Option<Canonical>| form.map(Canonical::finish).unwrap_or_default();
        Ok(Self { simple: hash(simple), relaxed: hash(relaxed) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Simple,
    Relaxed,
}

/// A body in canonical form, hashed as far as it is certain: line ends and spaces wait for text after them.
struct Canonical {
    form: Form,
    hash: Context,
    ready: Vec<u8>,
    line_ends: usize,
    has_space: bool,
    has_return: bool,
    is_empty: bool,
}

impl Canonical {
    fn new(form: Form) -> Self {
        let hash = Context::new(&SHA256);
        let ready = Vec::with_capacity(SHORT);
        Self { form, hash, ready, line_ends: 0, has_space: false, has_return: false, is_empty: true }
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.has_return) {
                if *byte == b'\n' {
                    (self.line_ends, self.has_space) = (self.line_ends + 1, false);
                    bytes = rest;
                    continue;
                }
                self.text(b"\r");
            }
            match byte {
                b'\r' => self.has_return = true,
                b' ' | b'\t' if self.form == Form::Relaxed => self.has_space = true,
                _ => {
                    let (text, after) = bytes.split_at(self.end_of_text(bytes));
                    self.text(text);
                    bytes = after;
                    continue;
                }
            }
            bytes = rest;
        }
    }

    /// Returns the position of the first byte that may change.
    fn end_of_text(&self, bytes: &[u8]) -> usize {
        match self.form {
            Form::Simple => memchr(b'\r', bytes).unwrap_or(bytes.len()),
            Form::Relaxed => end_of_words(bytes),
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        for _ in 0..std::mem::take(&mut self.line_ends) {
            self.push(b"\r\n");
        }
        if std::mem::take(&mut self.has_space) {
            self.push(b" ");
        }
        self.push(bytes);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.is_empty = false;
        self.ready.extend_from_slice(bytes);
        if self.ready.len() >= PIECE {
            self.hash.update(&self.ready);
            self.ready.clear();
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.has_return {
            self.text(b"\r");
        }
        // The simple form of an empty body is one line end, the relaxed form is empty.
        if self.form == Form::Simple || !self.is_empty {
            self.push(b"\r\n");
        }
        self.hash.update(&self.ready);
        self.hash.finish().as_ref().to_vec()
    }
}

/// Returns the end of the words before the first white space that the relaxed form changes. It does not change one space
/// between two words.
fn end_of_words(bytes: &[u8]) -> usize {
    let end = memchr2(b'\r', b'\t', bytes).unwrap_or(bytes.len());
    let end = TWO_SPACES.find(&bytes[..end]).unwrap_or(end);
    // White space may follow the last space.
    end - usize::from(bytes[..end].ends_with(b" "))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::digest;
    use proptest::prelude::*;

    use super::*;

    const BOTH: Forms = Forms { simple: true, relaxed: true };

    fn of(body: &str) -> BodyHashes {
        BodyHashes::of(&body.to_owned().into(), BOTH).unwrap()
    }

    fn sha256(text: &str) -> Vec<u8> {
        digest(&SHA256, text.as_bytes()).as_ref().to_vec()
    }

    #[test]
    fn empty_lines_at_the_end_do_not_count() {
        for body in ["", "\r\n", "\r\n\r\n\r\n"] {
            assert_eq!(of(body), BodyHashes { simple: sha256("\r\n"), relaxed: sha256("") }, "{body:?}");
        }
        for body in ["a", "a\r\n", "a\r\n\r\n"] {
            assert_eq!(of(body), BodyHashes { simple: sha256("a\r\n"), relaxed: sha256("a\r\n") }, "{body:?}");
        }
    }

    #[test]
    fn a_form_that_no_signature_uses_has_no_hash() {
        let (simple, relaxed) = (sha256("a  b\r\n"), sha256("a b\r\n"));
        let of = |forms| BodyHashes::of(&"a  b\r\n".to_owned().into(), forms).unwrap();
        let (only_simple, only_relaxed) = (Forms { relaxed: false, ..BOTH }, Forms { simple: false, ..BOTH });
        assert_eq!(of(BOTH), BodyHashes { simple: simple.clone(), relaxed: relaxed.clone() });
        assert_eq!(of(only_simple), BodyHashes { simple, relaxed: Vec::new() });
        assert_eq!(of(only_relaxed), BodyHashes { simple: Vec::new(), relaxed });
    }

    #[test]
    fn the_relaxed_form_reduces_white_space() {
        // The example of RFC 6376 section 3.4.5.
        let hashes = of(" C \r\nD \t E\r\n\r\n\r\n");
        assert_eq!(hashes.relaxed, sha256(" C\r\nD E\r\n"));
        assert_eq!(hashes.simple, sha256(" C \r\nD \t E\r\n"));
        assert_eq!(of("a\r\n \t\r\n\t\r\n").relaxed, sha256("a\r\n"));
        assert_eq!(of("a\rb\r\n\n \r").relaxed, sha256("a\rb\r\n\n \r\r\n"));
    }

    /// The relaxed form, written from RFC 6376 section 3.4.4 for a whole body.
    fn relaxed(body: &str) -> String {
        let lines = body.split("\r\n").map(|line| {
            let mut line = line.replace('\t', " ");
            while line.contains("  ") {
                line = line.replace("  ", " ");
            }
            line.trim_end_matches(' ').to_owned()
        });
        let text = lines.collect::<Vec<_>>().join("\r\n");
        let text = text.trim_end_matches("\r\n");
        if text.is_empty() { String::new() } else { format!("{text}\r\n") }
    }

    proptest! {
        #[test]
        fn a_body_has_one_hash_however_it_is_split(
            words in prop::collection::vec(prop::sample::select(vec!["a", "b", " ", "\t", "\r\n", "\r", "\n"]), 0..24),
            cut in 0_usize..24,
        ) {
            let body = words.concat();
            let cut = cut.min(body.len());
            let parts = [body[..cut].to_owned().into(), body[cut..].to_owned().into()];
            let hashes = of(&body);
            prop_assert_eq!(&BodyHashes::of(&Blob::joined(parts), BOTH).unwrap(), &hashes);
            prop_assert_eq!(&hashes.relaxed, &sha256(&relaxed(&body)));
            prop_assert_eq!(&hashes.simple, &sha256(&format!("{}\r\n", body.trim_end_matches("\r\n"))));
        }
    }
}
