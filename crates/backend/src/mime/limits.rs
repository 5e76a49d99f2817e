//! Limits for hostile messages.

/// Limits for parsing a message. Content beyond a limit stays inside the part where the limit was reached,
/// and the raw message can always be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nested multiparts; a deeper one is shown as text. 256.
    pub max_depth: usize,
    /// Parts of a message, including multiparts; the last one keeps the rest of the message. 10,000.
    pub max_parts: usize,
    /// Text parts that are joined to a body; later ones are attachments. 100.
    pub max_bodies: usize,
    /// Nested forwarded messages; a deeper one is not parsed. 16.
    pub max_messages: usize,
    /// Bytes of a header value that are searched for addresses. 256 KiB.
    pub max_address_bytes: usize,
    /// Bytes of a header value that are searched for parameters. 8 KiB.
    pub max_parameter_bytes: usize,
    /// Bytes of a line that are parsed; a longer line cannot be a boundary. 64 KiB.
    pub max_line_bytes: usize,
    /// Bytes of a header block that are searched for fields. 8 MiB.
    pub max_header_bytes: usize,
    /// Fields of a header block; later ones are ignored. 10,000.
    pub max_fields: usize,
    /// Bytes of a delivery report, and of its returned header, that are parsed. 1 MiB.
    pub max_report_bytes: usize,
    /// Bytes of a forwarded message that are searched for its subject. 64 KiB.
    pub max_forwarded_header_bytes: usize,
    /// Characters of an attachment's file name. 255: messages sent here may use names of up to as many bytes.
    pub max_filename_characters: usize,
    /// Characters of a subject stored for lists; an opened message shows all of it. 1,000.
    pub max_listed_subject_characters: usize,
    /// Recipients of To, and of Cc, stored for lists. 100.
    pub max_listed_correspondents: usize,
    /// Bytes of a name, and of an address, stored for lists. 320, the sum of the limits for local part and
    /// domain in RFC 5321 section 4.5.3.1.
    pub max_listed_name_bytes: usize,
    /// Bytes of a Message-ID stored for lists. 998, the limit of a line (RFC 5322 section 2.1.1).
    pub max_listed_identifier_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 256,
            max_parts: 10_000,
            max_bodies: 100,
            max_messages: 16,
            max_address_bytes: 256 * 1024,
            max_parameter_bytes: 8 * 1024,
            max_line_bytes: 64 * 1024,
            max_header_bytes: 8 * 1024 * 1024,
            max_fields: 10_000,
            max_report_bytes: 1024 * 1024,
            max_forwarded_header_bytes: 64 * 1024,
            max_filename_characters: 255,
            max_listed_subject_characters: 1_000,
            max_listed_correspondents: 100,
            max_listed_name_bytes: 320,
            max_listed_identifier_bytes: 998,
        }
    }
}
