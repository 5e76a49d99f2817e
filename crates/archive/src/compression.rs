//! Recognises compressed files by their first bytes.

use std::io::{self, Read, Seek, SeekFrom};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    /// As by Dovecot's plugin zlib (RFC 1952).
    Gzip,
    /// In a format that is not read, with the reason.
    Other(&'static str),
}

/// The first bytes of formats. No header field begins so.
const MARKS: [(&[u8], Compression); 6] = [
    (b"\x1f\x8b\x08", Compression::Gzip),
    (b"BZh91AY&SY", Compression::Other("is compressed with bzip2, which is not read; decompress it with bunzip2")),
    (b"\xfd7zXZ\0", Compression::Other("is compressed with xz, which is not read; decompress it with unxz")),
    (b"\x28\xb5\x2f\xfd", Compression::Other("is compressed with zstd, which is not read; decompress it with unzstd")),
    (b"Dovecot-LZ4\x0d", Compression::Other("is compressed with LZ4, which only Dovecot reads; import it by IMAP")),
    (b"PK\x03\x04", Compression::Other("is a ZIP archive; unpack it with unzip")),
];

impl Compression {
    /// Looks at the beginning of a file, and leaves its position there.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn of(file: &mut (impl Read + Seek)) -> io::Result<Self> {
        let mut start = Vec::new();
        file.take(16).read_to_end(&mut start)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(MARKS.iter().find(|(mark, _)| start.starts_with(mark)).map_or(Self::None, |(_, found)| *found))
    }
}
