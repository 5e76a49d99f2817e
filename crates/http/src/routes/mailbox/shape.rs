//! Pieces of JSON that the operations on mailboxes share.

use mailapi_service::mailbox::{AttachmentInfo, Correspondent};
use serde::Serialize;
use utoipa::ToSchema;

/// Somebody named in a header, as the header names them.
#[derive(Serialize, ToSchema)]
#[schema(as = Correspondent, example = json!({ "name": "Ann Lee", "email": "ann@example.org" }))]
pub(super) struct Named {
    /// The display name; may be empty.
    name: String,
    /// The address; empty when the header names none.
    email: String,
}

impl From<Correspondent> for Named {
    fn from(Correspondent { name, email }: Correspondent) -> Self {
        Self { name, email }
    }
}

/// Turns each.
pub(super) fn named(list: Vec<Correspondent>) -> Vec<Named> {
    list.into_iter().map(Into::into).collect()
}

/// A file in a message.
#[derive(Serialize, ToSchema)]
#[schema(as = Attachment, example = json!({
    "index": 0, "filename": "minutes.txt", "content_type": "text/plain", "size": 6, "content_id": null
}))]
pub(super) struct AttachmentEntry {
    /// Its position, as the path of the download names it.
    index: u32,
    /// Its name.
    filename: String,
    /// Its media type.
    content_type: String,
    /// How many octets it has, decoded.
    size: u64,
    /// What a `cid:` link in the HTML body names; null when it is no inline file.
    #[schema(required)]
    content_id: Option<String>,
}

impl From<AttachmentInfo> for AttachmentEntry {
    fn from(info: AttachmentInfo) -> Self {
        let AttachmentInfo { index, filename, content_type, type_parameters: _, size, content_id } = info;
        Self { index, filename, content_type, size, content_id }
    }
}
