//! Limits on fetched and cached messages.

/// Limits on fetched and cached data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxSettings {
    /// Messages up to this size are fetched whole and parsed here; for longer ones the server describes the parts.
    /// Default 64 KiB: most messages without attachments.
    pub whole_message_bytes: u32,
    /// Messages up to this size are fetched whole if the server's description of the parts is incomplete. Default 16
    /// MiB.
    pub doubtful_message_bytes: u32,
    /// Bytes read of an encoded body; the rest is omitted. Default 8 MiB.
    pub body_bytes: u32,
    /// Bytes read of a header. Default 1 MiB.
    pub header_bytes: u32,
    /// Bytes read of the header fields in a list (From, To, Subject, …). Default 64 KiB.
    pub summary_bytes: u32,
    /// Bytes read at both ends of an attachment to compute its size. Default 4 KiB.
    pub sample_bytes: u32,
    /// Memory for immutable data of lists. Default 16 MiB.
    pub summary_cache_bytes: u64,
    /// Memory for parts of messages and sizes of attachments. Default 8 MiB.
    pub exact_size_cache_bytes: u64,
    /// Number of newest messages per folder whose HTML bodies are searched here, as text. Servers search the source,
    /// with tags and entities. Default 1,000.
    pub html_search_messages: u32,
    /// Bytes read of each encoded HTML body. Default 256 KiB.
    pub html_search_bytes: u32,
    /// UIDs per command. Default 500, which keeps a line below the 8,192 bytes that every server accepts.
    pub uids_per_command: usize,
}

impl Default for MailboxSettings {
    fn default() -> Self {
        Self {
            whole_message_bytes: 64 * 1024,
            doubtful_message_bytes: 16 * 1024 * 1024,
            body_bytes: 8 * 1024 * 1024,
            header_bytes: 1024 * 1024,
            summary_bytes: 64 * 1024,
            sample_bytes: 4 * 1024,
            summary_cache_bytes: 16 * 1024 * 1024,
            exact_size_cache_bytes: 8 * 1024 * 1024,
            html_search_messages: 1_000,
            html_search_bytes: 256 * 1024,
            uids_per_command: 500,
        }
    }
}
