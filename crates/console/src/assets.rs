//! Style, scripts and icon.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::answer::Answer;
use crate::failure::Failure;

/// A file that belongs to this version: the address of each file has its version.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    is_packed: bool,
    bytes: &'static [u8],
}

const ASSETS: &[Asset] = &[
    Asset {
        name: "console.css",
        content_type: "text/css; charset=utf-8",
        is_packed: false,
        bytes: include_bytes!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        content_type: "text/javascript; charset=utf-8",
        is_packed: false,
        bytes: include_bytes!("../assets/console.js"),
    },
    Asset {
        name: "htmx-2.0.11.min.js",
        content_type: "text/javascript; charset=utf-8",
        is_packed: true,
        bytes: include_bytes!("../assets/htmx-2.0.11.min.js.gz"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        is_packed: false,
        bytes: include_bytes!("../assets/icon.svg"),
    },
];

/// An hour of stale assets does little harm after an upgrade.
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// One of the files. They are the same for everybody, so they need no session and count against no limit.
pub(crate) async fn file(Path(file): Path<String>) -> Answer {
    let asset = ASSETS.iter().find(|asset| asset.name == file).ok_or_else(Failure::not_found)?;
    Ok(asset.served())
}

impl Asset {
    fn served(&self) -> Response {
        let bytes = Bytes::from_static(self.bytes);
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(self.content_type)), (CACHE_CONTROL, FOR_AN_HOUR)];
        let mut response = (headers, bytes).into_response();
        if self.is_packed {
            const GZIP: (HeaderName, HeaderValue) = (CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.headers_mut().insert(GZIP.0, GZIP.1);
        }
        response
    }
}
