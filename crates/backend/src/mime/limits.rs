//! How far a hostile message is followed.

/// Up to where a message is taken apart. What lies beyond is not lost: it stays inside the part in which the limit
/// was met, and the message as it was received can always be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Multiparts inside one another; a deeper one is shown as the text that it is. 256.
    pub max_depth: usize,
    /// Parts of a message, multiparts included; the last of them keeps the rest of the message. 10,000.
    pub max_parts: usize,
    /// Messages inside one another, each forwarded in the one around it; a deeper one is not taken apart. 16.
    pub max_messages: usize,
    /// Octets of a header value in which addresses are looked for. 256 KiB.
    pub max_address_octets: usize,
    /// Octets of a header value in which parameters are looked for. 8 KiB.
    pub max_parameter_octets: usize,
    /// Octets of a line that are looked at; a longer one separates no parts. 64 KiB.
    pub max_line_octets: usize,
    /// Octets of a header block in which fields are looked for. 8 MiB.
    pub max_header_octets: usize,
    /// Fields of a header block; what stands behind them is passed over. 10,000.
    pub max_fields: usize,
    /// Octets of a delivery report, and of a header that comes back with it, that are looked at. 1 MiB.
    pub max_report_octets: usize,
    /// Octets of a forwarded message in which its subject is looked for. 64 KiB.
    pub max_forwarded_header_octets: usize,
    /// Characters of an attachment's file name. 255: messages sent here may use names of as many octets.
    pub max_filename_characters: usize,
    /// Characters of a subject that a digest keeps for lists; a message that is opened shows all of it. 1,000.
    pub max_listed_subject_characters: usize,
    /// Correspondents of To, and of Cc, that a digest keeps for lists. 100.
    pub max_listed_correspondents: usize,
    /// Octets of a name, and of an address, that a digest keeps for lists. 320, as much as RFC 5321 section 4.5.3.1
    /// gives a local part and a domain together.
    pub max_listed_name_octets: usize,
    /// Octets of a Message-ID that a digest keeps for lists. 998, a line's worth (RFC 5322 section 2.1.1).
    pub max_listed_identifier_octets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 256,
            max_parts: 10_000,
            max_messages: 16,
            max_address_octets: 256 * 1024,
            max_parameter_octets: 8 * 1024,
            max_line_octets: 64 * 1024,
            max_header_octets: 8 * 1024 * 1024,
            max_fields: 10_000,
            max_report_octets: 1024 * 1024,
            max_forwarded_header_octets: 64 * 1024,
            max_filename_characters: 255,
            max_listed_subject_characters: 1_000,
            max_listed_correspondents: 100,
            max_listed_name_octets: 320,
            max_listed_identifier_octets: 998,
        }
    }
}
