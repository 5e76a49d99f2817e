//! Converts messages for servers without 8BITMIME or SMTPUTF8.

use std::ops::Range;

use mailapi_backend::mime::{ConversionError, header_lines, in_seven_bits, with_ascii_header};
use mailapi_backend::{SignError, read_bytes};
use mailapi_model::{Blob, DomainName, EnhancedCode, Reply};
use mailapi_smtp::Envelope;
use mailapi_smtp::client::Capabilities;
use mailapi_smtp_client::OutboundMessage;

use super::Inner;
use super::attempt_outcome::AttemptOutcome;
use crate::queue::QueuedMessage;

/// Bytes of a header that are searched for our signature, which is near the top.
const SEARCHED_HEADER_BYTES: usize = 64 * 1024;

/// How a message changes for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    /// To ASCII: the server takes no 8-bit text (RFC 6152 section 3).
    Whole,
    /// The header alone: the server takes no UTF-8 there (RFC 6531 section 3.2).
    Header,
}

impl Conversion {
    /// Returns the conversion that a message needs, if any. An international address cannot be converted, and the client
    /// refuses the message without SMTPUTF8.
    fn needed(envelope: &Envelope, outbound: &OutboundMessage, offered: Capabilities) -> Option<Self> {
        let facts = outbound.facts();
        if envelope.has_international_address() && !offered.smtputf8 {
            None
        } else if facts.is_eight_bit() && !offered.eight_bit_mime {
            Some(Self::Whole)
        } else if facts.has_international_header() && !offered.smtputf8 {
            Some(Self::Header)
        } else {
            None
        }
    }

    fn of(self, message: &Blob) -> Result<Blob, ConversionError> {
        match self {
            Self::Whole => in_seven_bits(message),
            Self::Header => with_ascii_header(message),
        }
    }
}

impl Inner {
    /// Returns the message as a server with these extensions takes it; `None` if it takes the message as it is.
    ///
    /// # Errors
    /// The result of the attempt, if the message cannot be converted.
    pub(super) async fn adapted(
        &self,
        message: &QueuedMessage,
        envelope: &Envelope,
        outbound: &OutboundMessage,
        offered: Capabilities,
    ) -> Result<Option<OutboundMessage>, AttemptOutcome> {
        let Some(conversion) = Conversion::needed(envelope, outbound, offered) else { return Ok(None) };
        let content = outbound.content().clone();
        let converting = tokio::task::spawn_blocking(move || conversion.of(&content));
        let unreadable = |error: &dyn std::fmt::Display| {
            tracing::error!(queue_id = %message.queue_id, %error, "message could not be converted; it is retried later");
            AttemptOutcome::unreadable()
        };
        let converted = match converting.await {
            Ok(Ok(converted)) => self.signed_again(message, converted).await.map_err(|error| unreadable(&error))?,
            Ok(Err(ConversionError::Unreadable(error))) => return Err(unreadable(&error)),
            Ok(Err(error)) => return Err(AttemptOutcome::of_our_own(refusal(conversion, &error))),
            Err(error) => return Err(unreadable(&error)),
        };
        OutboundMessage::of(converted).await.map(Some).map_err(|error| unreadable(&error))
    }

    /// Replaces our DKIM signature, which does not hold for the converted message (RFC 6376 section 5.3). Those of others
    /// stay.
    async fn signed_again(&self, message: &QueuedMessage, converted: Blob) -> Result<Blob, SignError> {
        let Some(signer) = self.signer.get().filter(|_| !message.from_outside) else { return Ok(converted) };
        let beginning = read_bytes(&converted, 0..SEARCHED_HEADER_BYTES).await.map_err(|_| SignError::Unavailable)?;
        let Some((range, domain)) = signature(&beginning) else { return Ok(converted) };
        let rest = [converted.slice(0..range.start), converted.slice(range.end..converted.len())];
        let unsigned = Blob::joined(rest);
        match signer.sign(&domain, unsigned.clone()).await {
            // The domain was switched off, or the signature is another server's. An invalid one would help no reader.
            Err(SignError::NotAllowed) => Ok(unsigned),
            signed => signed,
        }
    }
}

/// Returns the reply to a message that cannot be converted (RFC 3463 section 3.7).
fn refusal(conversion: Conversion, error: &ConversionError) -> Reply {
    let (code, lacks) = match (conversion, error) {
        (_, ConversionError::Address) | (Conversion::Header, _) => (EnhancedCode::new(5, 6, 7), "SMTPUTF8"),
        (Conversion::Whole, _) => (EnhancedCode::new(5, 6, 3), "8BITMIME"),
    };
    Reply::new(554, code, format!("the next server does not offer {lacks}, and {error}"))
}

/// Returns the range of the first DKIM signature, and its domain.
fn signature(message: &[u8]) -> Option<(Range<usize>, DomainName)> {
    const NAME: &[u8] = b"DKIM-Signature";
    let (mut at, mut found) = (0, None::<Range<usize>>);
    for line in header_lines(message) {
        let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
        let end = at + line.len();
        match &mut found {
            Some(range) if is_continued => range.end = end,
            Some(_) => break,
            None => {
                let colon = line.iter().position(|byte| *byte == b':').unwrap_or_default();
                let is_name = !is_continued && line[..colon].trim_ascii_end().eq_ignore_ascii_case(NAME);
                found = is_name.then_some(at..end);
            }
        }
        at = end;
    }
    let range = found?;
    let field = String::from_utf8_lossy(&message[range.clone()]);
    let (_, tags) = field.split_once(':')?;
    let domain = tags.split(';').filter_map(|tag| tag.split_once('=')).find(|(name, _)| name.trim() == "d")?.1;
    domain.trim().parse().ok().map(|domain| (range, domain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_signature_is_found_with_its_domain() {
        assert_eq!(signature(b"From: a@b\r\n\r\nDKIM-Signature: d=x.example\r\n"), None);
        assert_eq!(signature(b"Subject: x\r\n DKIM-Signature: d=x.example\r\n\r\n"), None);
        assert_eq!(signature(b"DKIM-Signature: v=1; s=d; bh=d\r\n\r\n"), None);
        let message =
            b"Received: x\r\ndkim-signature: v=1;\r\n d=x.example; s=1\r\nDKIM-Signature: d=y.example\r\n\r\n";
        let (range, domain) = signature(message).unwrap();
        assert_eq!(&message[range], b"dkim-signature: v=1;\r\n d=x.example; s=1\r\n");
        assert_eq!(domain.as_str(), "x.example");
    }

    proptest! {
        #[test]
        fn the_range_is_within_the_message(message in "(DKIM-Signature|:| |;|d=|x\\.example|\r\n|\\PC){0,40}") {
            if let Some((range, _)) = signature(message.as_bytes()) {
                prop_assert!(message.is_char_boundary(range.start) && range.end <= message.len());
            }
        }
    }
}
