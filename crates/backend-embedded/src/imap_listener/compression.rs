//! DEFLATE in both directions of a connection (RFC 4978).
//!
//! A small input can inflate to a thousand times its length. Each call inflates only into the caller's buffer, and the
//! rest waits as input, so that the limits on commands apply as without compression.

use std::io;

use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};

use super::session_limits::CompressionPermit;

/// Space that one round of compression gets.
const ROUND_BYTES: usize = 16 * 1024;

/// Both directions of a compressed connection.
pub(super) struct Compression {
    inflate: Decompress,
    deflate: Compress,
    /// Received bytes that are not inflated yet.
    received: Vec<u8>,
    has_ended: bool,
    _permit: CompressionPermit,
}

impl Compression {
    pub(super) fn new(permit: CompressionPermit) -> Self {
        // RFC 4978 section 4: without the zlib header.
        Self {
            inflate: Decompress::new(false),
            deflate: Compress::new(Level::fast(), false),
            received: Vec::new(),
            has_ended: false,
            _permit: permit,
        }
    }

    /// Adds received bytes; only after [`Compression::inflate`] returned 0.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Whether the client ended its stream.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Inflates received bytes into the buffer. Returns the number of bytes; 0 means that more input is needed.
    ///
    /// # Errors
    /// If the input is damaged.
    pub(super) fn inflate(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let inflated = self.inflate.decompress(&self.received, buffer, FlushDecompress::Sync);
        match inflated.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            Status::StreamEnd => self.has_ended = true,
            Status::Ok | Status::BufError => {}
        }
        let taken = usize::try_from(self.inflate.total_in() - before_in).map_err(io::Error::other)?;
        self.received.drain(..taken);
        usize::try_from(self.inflate.total_out() - before_out).map_err(io::Error::other)
    }

    /// Returns the compressed form of the bytes, flushed so that the client can read all of them.
    ///
    /// # Errors
    /// If the compressor fails.
    pub(super) fn deflate(&mut self, mut bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut compressed = Vec::with_capacity(ROUND_BYTES);
        loop {
            let before = self.deflate.total_in();
            compressed.reserve(ROUND_BYTES);
            self.deflate.compress_vec(bytes, &mut compressed, FlushCompress::Sync).map_err(io::Error::other)?;
            let taken = usize::try_from(self.deflate.total_in() - before).map_err(io::Error::other)?;
            bytes = &bytes[taken..];
            // Free space means that the flush is complete.
            if bytes.is_empty() && compressed.len() < compressed.capacity() {
                return Ok(compressed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::session_limits::SessionLimits;
    use super::*;

    fn compression() -> Compression {
        Compression::new(SessionLimits::new(1).compress().unwrap())
    }

    fn inflate_all(peer: &mut Compression, bytes: &[u8], buffer: &mut [u8]) -> Vec<u8> {
        let mut all = Vec::new();
        peer.receive(bytes);
        loop {
            match peer.inflate(buffer).unwrap() {
                0 => return all,
                read => all.extend_from_slice(&buffer[..read]),
            }
        }
    }

    #[test]
    fn a_small_input_fills_no_more_than_the_buffer() {
        let (mut one, mut other) = (compression(), compression());
        let bomb = one.deflate(&vec![b'x'; 10_000_000]).unwrap();
        assert!(bomb.len() < 100_000);
        other.receive(&bomb);
        let mut buffer = [0; 4096];
        for _ in 0..100 {
            assert_eq!(other.inflate(&mut buffer).unwrap(), 4096);
            assert!(other.received.capacity() <= 2 * bomb.len());
        }
    }

    #[test]
    fn damaged_input_is_an_error() {
        let mut peer = compression();
        peer.receive(&[0xff; 100]);
        assert!(peer.inflate(&mut [0; 100]).is_err());
    }

    proptest! {
        #[test]
        fn what_one_side_sends_the_other_reads(
            writes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..6), size in 1usize..5000,
        ) {
            let (mut one, mut other) = (compression(), compression());
            let mut buffer = vec![0; size];
            for bytes in writes {
                let sent = one.deflate(&bytes).unwrap();
                prop_assert_eq!(inflate_all(&mut other, &sent, &mut buffer), bytes);
            }
        }

        #[test]
        fn any_input_is_inflated_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut peer = compression();
            peer.receive(&bytes);
            let mut buffer = [0; 64];
            while let Ok(1..) = peer.inflate(&mut buffer) {}
        }
    }
}
