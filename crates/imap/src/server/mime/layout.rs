//! Positions of the parts in a message, and the octets of a section.

use std::ops::Range;

/// The position of a message or part in the raw octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartLayout {
    /// The header with the empty line.
    pub header: Range<usize>,
    /// The body.
    pub body: Range<usize>,
    /// The structure of the body.
    pub content: PartContent,
}

/// The structure of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartContent {
    /// Neither parts nor a message.
    Leaf,
    /// The parts of a multipart.
    Multipart(Vec<PartLayout>),
    /// The message inside message/rfc822.
    Message(Box<PartLayout>),
}

/// Content of a part; [`super::super::command::SectionText`] without the selection of header fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartRange {
    /// The whole message, or a part's body.
    All,
    /// The header of a message.
    Header,
    /// The body of a message.
    Text,
    /// The MIME header of a part.
    Mime,
}

impl PartLayout {
    /// Returns the octets of a section of this message; `None` if there is no such part.
    ///
    /// Part numbers follow RFC 3501 section 6.4.5: a message that is not a multipart has one part, 1. Below a
    /// message/rfc822 part, numbers name the parts of the message inside.
    pub fn locate(&self, path: &[u32], range: PartRange) -> Option<Range<usize>> {
        if path.is_empty() {
            return match range {
                PartRange::All => Some(self.header.start..self.body.end),
                PartRange::Header => Some(self.header.clone()),
                PartRange::Text => Some(self.body.clone()),
                PartRange::Mime => None,
            };
        }
        let part = self.part(path)?;
        match (range, &part.content) {
            (PartRange::All, _) => Some(part.body.clone()),
            (PartRange::Mime, _) => Some(part.header.clone()),
            (PartRange::Header, PartContent::Message(message)) => Some(message.header.clone()),
            (PartRange::Text, PartContent::Message(message)) => Some(message.body.clone()),
            (PartRange::Header | PartRange::Text, _) => None,
        }
    }

    fn part(&self, path: &[u32]) -> Option<&Self> {
        let mut current = self;
        let mut is_message = true;
        for &number in path {
            // Numbers after an attached message name the parts of the message inside.
            if let (false, PartContent::Message(message)) = (is_message, &current.content) {
                current = message;
                is_message = true;
            }
            match &current.content {
                PartContent::Multipart(parts) => {
                    current = parts.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
                }
                // A message that is not a multipart is its own part 1.
                _ if is_message && number == 1 => {}
                _ => return None,
            }
            is_message = false;
        }
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PartRange::{All, Header, Mime, Text};

    fn leaf(header: Range<usize>, body: Range<usize>) -> PartLayout {
        PartLayout { header, body, content: PartContent::Leaf }
    }

    /// A multipart of a text and a message/rfc822 that holds a multipart of two texts.
    fn nested() -> PartLayout {
        let inner = PartLayout {
            header: 50..60,
            body: 60..90,
            content: PartContent::Multipart(vec![leaf(61..62, 62..70), leaf(71..72, 72..80)]),
        };
        let attached = PartLayout { header: 40..50, body: 50..90, content: PartContent::Message(Box::new(inner)) };
        let parts = vec![leaf(15..20, 20..30), attached];
        PartLayout { header: 0..10, body: 10..100, content: PartContent::Multipart(parts) }
    }

    #[test]
    fn parts_that_do_not_exist_have_no_bytes() {
        let message = nested();
        for path in [&[0][..], &[3], &[1, 1], &[2, 3], &[2, 1, 1], &[u32::MAX]] {
            assert_eq!(message.locate(path, All), None, "{path:?}");
        }
        assert_eq!(message.locate(&[1], Header), None);
        assert_eq!(message.locate(&[], Mime), None);
        assert_eq!(leaf(0..5, 5..9).locate(&[2], All), None);
    }

    #[test]
    fn sections_are_found() {
        let message = nested();
        assert_eq!(message.locate(&[], All), Some(0..100));
        assert_eq!(message.locate(&[], Text), Some(10..100));
        assert_eq!(message.locate(&[1], All), Some(20..30));
        assert_eq!(message.locate(&[1], Mime), Some(15..20));
        assert_eq!(message.locate(&[2], All), Some(50..90));
        assert_eq!(message.locate(&[2], Header), Some(50..60));
        assert_eq!(message.locate(&[2], Text), Some(60..90));
        assert_eq!(message.locate(&[2, 2], All), Some(72..80));
        assert_eq!(leaf(0..5, 5..9).locate(&[1], All), Some(5..9));
    }

    #[test]
    fn a_message_that_is_one_attached_message_has_part_1_1() {
        let inner = leaf(5..8, 8..9);
        let outer = PartLayout { header: 0..5, body: 5..9, content: PartContent::Message(Box::new(inner)) };
        assert_eq!(outer.locate(&[1], All), Some(5..9));
        assert_eq!(outer.locate(&[1], Header), Some(5..8));
        assert_eq!(outer.locate(&[1, 1], All), Some(8..9));
    }
}
