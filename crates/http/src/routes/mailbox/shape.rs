//! JSON shapes that the mailbox operations share.

use mailapi_service::mailbox::{AttachmentInfo, Correspondent};
use serde::Serialize;
use utoipa::ToSchema;

/// A name and address from a header.
#[derive(Serialize, ToSchema)]
#[schema(as = Correspondent, example = json!({ "name": "Alice Lee", "email": "alice@example.test" }))]
pub(super) struct Named {
    /// Display name; may be empty.
    name: String,
    /// Address; empty if the header has none.
    email: String,
}

impl From<Correspondent> for Named {
    fn from(Correspondent { name, email }: Correspondent) -> Self {
        Self { name, email }
    }
}

/// Converts each correspondent.
pub(super) fn named(list: Vec<Correspondent>) -> Vec<Named> {
    list.into_iter().map(Into::into).collect()
}

/// An attachment of a message.
#[derive(Serialize, ToSchema)]
#[schema(as = Attachment, example = json!({
    "index": 0, "filename": "minutes.txt", "content_type": "text/plain", "size": 6, "content_id": null
}))]
pub(super) struct AttachmentEntry {
    /// Index, used in the download path.
    index: u32,
    /// File name.
    filename: String,
    /// Media type.
    content_type: String,
    /// Decoded size in bytes.
    size: u64,
    /// Content-ID that `cid:` links in the HTML body refer to; null if the file is not inline.
    #[schema(required)]
    content_id: Option<String>,
}

impl From<AttachmentInfo> for AttachmentEntry {
    fn from(info: AttachmentInfo) -> Self {
        let AttachmentInfo { index, filename, content_type, type_parameters: _, size, content_id } = info;
        Self { index, filename, content_type, size, content_id }
    }
}
