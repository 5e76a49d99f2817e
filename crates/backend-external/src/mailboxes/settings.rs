//! How much of messages is fetched and remembered.

/// Sizes of what is fetched at once and of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxSettings {
    /// A message up to this length is fetched whole and taken apart here; of a longer one the server tells the parts.
    /// Default 64 KiB: most messages without attachments.
    pub whole_message_octets: u32,
    /// Up to this length a message is fetched whole even so, when what the server tells of its parts cannot be all.
    /// Default 16 MiB.
    pub doubtful_message_octets: u32,
    /// Octets of a body, as it is written, that are read; the rest is left out. Default 8 MiB.
    pub body_octets: u32,
    /// The same of a header. Default 1 MiB.
    pub header_octets: u32,
    /// Octets of From, To, Subject and other fields of a list. Default 64 KiB.
    pub summary_octets: u32,
    /// Octets at both ends of an attachment that are looked at to learn its size. Default 4 KiB.
    pub sample_octets: u32,
    /// Memory for what a list shows and never changes. Default 16 MiB.
    pub summary_cache_bytes: u64,
    /// Memory for the parts of messages and the sizes of attachments. Default 8 MiB.
    pub exact_size_cache_bytes: u64,
    /// Among so many of a folder's newest messages, HTML bodies are searched here, as text: servers search them as they
    /// are written, tags and entities included. Default 1,000.
    pub html_search_messages: u32,
    /// So many octets of each, as they are written. Default 256 KiB.
    pub html_search_octets: u32,
    /// UIDs named in one command. Default 500: then a line stays within the 8,192 octets that every server takes.
    pub uids_per_command: usize,
}

impl Default for MailboxSettings {
    fn default() -> Self {
        Self {
            whole_message_octets: 64 * 1024,
            doubtful_message_octets: 16 * 1024 * 1024,
            body_octets: 8 * 1024 * 1024,
            header_octets: 1024 * 1024,
            summary_octets: 64 * 1024,
            sample_octets: 4 * 1024,
            summary_cache_bytes: 16 * 1024 * 1024,
            exact_size_cache_bytes: 8 * 1024 * 1024,
            html_search_messages: 1_000,
            html_search_octets: 256 * 1024,
            uids_per_command: 500,
        }
    }
}
