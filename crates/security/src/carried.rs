//! Messages inside a message. Mail programs show them in their place.

use std::io;

use mailapi_backend::mime::{AttachmentPart, MessageStructure, TransferEncoding};
use mailapi_model::Blob;

use crate::bounds::{CARRIED_DEPTH, CARRIED_MESSAGES, FILE_BYTES};
use crate::report::Findings;

/// The message, or one that it carries.
#[derive(Debug)]
pub(crate) struct CarriedMessage {
    pub(crate) message: Blob,
    pub(crate) structure: MessageStructure,
    /// The attachment of the outermost message that it is in; `None` for that message.
    pub(crate) index: Option<u32>,
    depth: usize,
}

/// Returns the message, and after it the messages that it carries.
pub(crate) fn all(
    message: &Blob,
    structure: MessageStructure,
    findings: &mut Findings,
) -> io::Result<Vec<CarriedMessage>> {
    let mut all = vec![CarriedMessage { message: message.clone(), structure, index: None, depth: 0 }];
    let mut at = 0;
    while let Some(outer) = all.get(at) {
        at += 1;
        let room = (CARRIED_MESSAGES + 1).saturating_sub(all.len());
        let is_message =
            |part: &&AttachmentPart| matches!(&*part.info.content_type, "message/rfc822" | "message/global");
        let inside: Vec<_> = outer.structure.attachments.iter().filter(is_message).take(room + 1).collect();
        let room = if outer.depth < CARRIED_DEPTH { room } else { 0 };
        findings.is_partial |= inside.len() > room;
        let opened = inside.into_iter().take(room).map(|part| open(outer, part)).collect::<io::Result<Vec<_>>>()?;
        for (carried, is_whole) in opened {
            findings.is_partial |= !is_whole;
            all.push(carried);
        }
    }
    Ok(all)
}

/// Opens a carried message; returns whether it is whole.
fn open(outer: &CarriedMessage, part: &AttachmentPart) -> io::Result<(CarriedMessage, bool)> {
    let encoded = part.span.within(&outer.message);
    let (message, is_whole) = match part.span.encoding {
        TransferEncoding::Identity => (encoded, true),
        // RFC 2046 section 5.2.1 forbids other encodings, and some senders use them.
        _ => {
            let read = encoded.slice(0..FILE_BYTES);
            let (mut decoder, mut decoded) = (part.span.decoder(), Vec::new());
            decoder.push(&read.to_bytes()?, &mut decoded);
            decoder.finish(&mut decoded);
            (Blob::from(decoded), read.len() == encoded.len())
        }
    };
    let structure = MessageStructure::of_bytes(&message)?;
    let index = outer.index.or(Some(part.info.index));
    Ok((CarriedMessage { message, structure, index, depth: outer.depth + 1 }, is_whole))
}
