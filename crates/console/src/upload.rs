//! Forms with files (RFC 7578).

use std::ops::Range;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use mailapi_http::{ApiError, BodyRoom, HttpState, NoRoom};
use mailapi_model::{AttachmentFields, Violations};
use mailapi_service::mail::BodyHash;
use mailapi_service::{Buffer, BufferWriter, Unavailable};
use multer::{Constraints, Field, Multipart, SizeLimit};

use crate::failure::Failure;
use crate::fields::Fields;

/// Maximum size of all fields except files.
pub(crate) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// The field of the files.
const FILES: &str = "attachment";
/// Maximum number of text fields, in addition to one for each file of a draft.
const MAX_FIELDS: usize = 40;

/// The fields and the files of a form.
pub(crate) struct Upload {
    pub(crate) fields: Fields,
    pub(crate) files: Vec<AttachmentFields>,
    /// Of everything in the form: a form that is sent again has the same one.
    pub(crate) hash: BodyHash,
    /// Held until the files are gone.
    pub(crate) room: BodyRoom,
}

impl FromRequest<HttpState> for Upload {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Failure> {
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = content_type.and_then(|text| multer::parse_boundary(text).ok()).ok_or_else(unreadable)?;
        let settings = state.settings();
        let limit = SizeLimit::new().whole_stream(settings.max_request_bytes as u64);
        let constraints = Constraints::new().size_limit(limit);
        let room = BodyRoom::of(&request, state);
        let parts = Multipart::with_constraints(room.pieces(request.into_body(), state), boundary, constraints);
        let receiving = Receiving::new(room, settings.body_pause, state.service().buffer());
        let most_files = state.service().settings().draft.max_attachments;
        match tokio::time::timeout(settings.body_timeout, receiving.receive(parts, most_files)).await {
            Ok(read) => read,
            Err(_) => Err(unreadable()),
        }
    }
}

/// A form that arrives.
struct Receiving {
    room: BodyRoom,
    /// Maximum pause within the form.
    pause: Duration,
    texts: Vec<(String, String)>,
    text_bytes: usize,
    /// All files, one after the other: large content is on disk.
    contents: BufferWriter,
    /// The files without their content, and its place.
    files: Vec<(AttachmentFields, Range<usize>)>,
    hash: BodyHash,
}

impl Receiving {
    fn new(room: BodyRoom, pause: Duration, buffer: &Buffer) -> Self {
        let (texts, files, hash) = (Vec::new(), Vec::new(), BodyHash::default());
        Self { room, pause, texts, text_bytes: 0, contents: buffer.writer(), files, hash }
    }

    async fn receive(mut self, mut parts: Multipart<'_>, most_files: usize) -> Result<Upload, Failure> {
        while let Some(part) = self.in_time(parts.next_field()).await? {
            let is_file = part.file_name().is_some();
            if !is_file && part.name() == Some(FILES) {
                return Err(Violations::of(FILES, "has a file name that is not UTF-8").into());
            }
            if (is_file && self.files.len() > most_files) || (!is_file && self.texts.len() > MAX_FIELDS + most_files) {
                return Err(Violations::of("attachment", format!("at most {most_files} are allowed")).into());
            }
            if is_file { self.file(part).await? } else { self.text(part).await? }
        }
        let contents = self.contents.finish().map_err(Unavailable::from)?;
        let with_content = |(file, place)| AttachmentFields { content: Some(contents.slice(place)), ..file };
        let files = self.files.into_iter().map(with_content).collect();
        Ok(Upload { fields: Fields::of(self.texts), files, hash: self.hash, room: self.room })
    }

    async fn text(&mut self, mut part: Field<'_>) -> Result<(), Failure> {
        let name = part.name().unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(&mut part).await? {
            self.room.keep(chunk.len())?;
            self.text_bytes += chunk.len();
            if self.text_bytes > MAX_TEXT_BYTES {
                return Err(Violations::of(name, format!("must have at most {MAX_TEXT_BYTES} bytes")).into());
            }
            bytes.extend_from_slice(&chunk);
        }
        self.end_part(&name, bytes.len());
        self.texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        Ok(())
    }

    /// A file field that was left empty does not count as a file.
    async fn file(&mut self, mut part: Field<'_>) -> Result<(), Failure> {
        let filename = part.file_name().unwrap_or_default().to_owned();
        let content_type = part.content_type().map(|kind| kind.essence_str().to_owned());
        let begin = self.contents.len();
        while let Some(chunk) = self.chunk(&mut part).await? {
            self.contents.push(&chunk).await.map_err(Unavailable::from)?;
        }
        let place = begin..self.contents.len();
        self.end_part(&filename, place.len());
        if !filename.is_empty() {
            self.files.push((AttachmentFields { filename, content: None, content_type, content_id: None }, place));
        }
        Ok(())
    }

    async fn chunk(&mut self, part: &mut Field<'_>) -> Result<Option<axum::body::Bytes>, Failure> {
        let chunk = self.in_time(part.chunk()).await?;
        if let Some(chunk) = &chunk {
            self.hash.update(chunk);
        }
        Ok(chunk)
    }

    /// Lengths make sure that no two forms have the same hash.
    fn end_part(&mut self, name: &str, length: usize) {
        self.hash.update(name.as_bytes());
        [name.len(), length].iter().for_each(|length| self.hash.update(&length.to_le_bytes()));
    }

    async fn in_time<T>(&self, next: impl Future<Output = multer::Result<T>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.pause, next).await {
            Ok(next) => next.map_err(refused),
            Err(_) => Err(unreadable()),
        }
    }
}

fn refused(error: multer::Error) -> Failure {
    match error {
        multer::Error::FieldSizeExceeded { .. } | multer::Error::StreamSizeExceeded { .. } => {
            Violations::of("attachment", "the files are too large for one message").into()
        }
        multer::Error::StreamReadFailed(error) if error.is::<NoRoom>() => NoRoom.into(),
        _ => unreadable(),
    }
}

fn unreadable() -> Failure {
    Failure::from(ApiError::from(Violations::of("form", "could not be read; send it again")))
}
