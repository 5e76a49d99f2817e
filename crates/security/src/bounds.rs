//! Limits of an analysis. What is beyond them is not read, and the report says so.

/// Bytes of all bodies together, before they are decoded.
pub const BODY_BYTES: usize = 1024 * 1024;
/// Bytes of an attachment that are kept while its directory is read, such as that of a ZIP archive.
pub const FILE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of an HTML file in which scripts are looked for.
pub const PAGE_FILE_BYTES: usize = 1024 * 1024;
/// Files that are opened. Others are listed without what their bytes say.
pub const OPENED_FILES: usize = 100;
/// Entries of an archive that are read.
pub const ARCHIVE_ENTRIES: usize = 10_000;
/// Links that a report lists.
pub const LISTED_LINKS: usize = 100;
/// Different links that are read of each body.
pub const READ_LINKS: usize = 1_000;
/// Sites whose names are compared with own domains.
pub const COMPARED_HOSTS: usize = 200;
/// Elements that are open inside each other. Deeper ones count as part of the last.
pub const OPEN_ELEMENTS: usize = 256;
/// Characters of a piece of evidence, and of a link's text.
pub const EVIDENCE_CHARS: usize = 200;
/// Pieces of evidence for one sign.
pub const EVIDENCE_PIECES: usize = 5;
/// Authors whose names are compared.
pub const COMPARED_AUTHORS: usize = 100;
/// People of the mailbox that others may imitate.
pub const CORRESPONDENTS: usize = 500;
/// Messages that a message carries inside each other, and all that are read.
pub const CARRIED_DEPTH: usize = 3;
/// See [`CARRIED_DEPTH`].
pub const CARRIED_MESSAGES: usize = 100;
/// Pictures in which codes are looked for.
pub const CODE_IMAGES: usize = 10;
/// Bytes of such a picture.
pub const CODE_IMAGE_BYTES: usize = 4 * 1024 * 1024;
/// Pixels of all of them together, as their headers name them. They take a tenth of a second.
pub const CODE_IMAGE_PIXELS: u64 = 4 * 1024 * 1024;
/// Bytes that its decoder may take.
pub const CODE_MEMORY: u64 = 24 * 1024 * 1024;
