//! The tree of a message's parts, including forwarded messages. IMAP section numbers count them (RFC 3501
//! section 6.4.5).

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::limits::Limits;
use super::structure::{self, Part};

/// A message or part with its children. Ranges count from the start of the outermost message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTree {
    /// Its header block, including the empty line if there is one.
    pub header: Range<usize>,
    /// Its encoded body, without the line end that belongs to the next boundary.
    pub body: Range<usize>,
    /// `type/subtype` in lower case.
    pub media_type: String,
    /// The content of its body.
    pub content: PartTreeContent,
}

/// The content of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartTreeContent {
    /// Neither parts nor a message, or none within the limits.
    Leaf,
    /// The parts of a multipart; at least one.
    Multipart(Vec<PartTree>),
    /// The message inside message/rfc822.
    Message(Box<PartTree>),
}

impl PartTree {
    /// Returns the tree of a message with the default [`Limits`].
    ///
    /// They apply to the message and all messages inside together. The depth is at most the sum of
    /// [`Limits::max_depth`] and [`Limits::max_messages`].
    #[must_use]
    pub fn of(raw: &[u8]) -> Self {
        Self::with_limits(raw, &Limits::default())
    }

    /// Returns the tree of a message.
    #[must_use]
    pub fn with_limits(raw: &[u8], limits: &Limits) -> Self {
        Walker { raw, limits, parts_left: limits.max_parts }.message(0..raw.len(), limits.max_depth, 0)
    }
}

struct Walker<'a> {
    raw: &'a [u8],
    limits: &'a Limits,
    /// Remaining number of parts, for all messages together.
    parts_left: usize,
}

impl Walker<'_> {
    /// Returns the message in `span`, which is nested in `messages` others and may have `depth` levels of
    /// multiparts.
    fn message(&mut self, span: Range<usize>, depth: usize, messages: usize) -> PartTree {
        let limits = Limits { max_depth: depth, max_parts: self.parts_left, ..*self.limits };
        let parts = structure::parts(&self.raw[span.clone()], &limits);
        self.parts_left = self.parts_left.saturating_sub(parts.len());
        let whole = PartTree {
            header: span.start..span.start,
            body: span.clone(),
            media_type: "text/plain".to_owned(),
            content: PartTreeContent::Leaf,
        };
        self.part(&mut parts.into_iter().peekable(), span.start, depth, messages).unwrap_or(whole)
    }

    fn part(
        &mut self,
        parts: &mut Peekable<IntoIter<Part>>,
        base: usize,
        depth: usize,
        messages: usize,
    ) -> Option<PartTree> {
        let part = parts.next()?;
        let shifted = |range: &Range<usize>| base + range.start..base + range.end;
        let (header, body) = (shifted(&part.header), shifted(&part.body));
        // The limits apply to all nested messages together.
        let is_followed = messages < self.limits.max_messages && self.parts_left > 0;
        let content = if part.has_parts {
            let mut children = Vec::new();
            while parts.peek().is_some_and(|next| next.level > part.level) {
                children.extend(self.part(parts, base, depth, messages));
            }
            PartTreeContent::Multipart(children)
        } else if part.media_type == "message/rfc822" && is_followed {
            let depth = depth.saturating_sub(part.level);
            PartTreeContent::Message(Box::new(self.message(body.clone(), depth, messages + 1)))
        } else {
            PartTreeContent::Leaf
        };
        Some(PartTree { header, body, media_type: part.media_type, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Formats each part as its media type and body, with children in brackets.
    fn shape(tree: &PartTree, raw: &str) -> String {
        let inner = match &tree.content {
            PartTreeContent::Leaf => raw[tree.body.clone()].replace("\r\n", "|"),
            PartTreeContent::Multipart(parts) => {
                parts.iter().map(|part| shape(part, raw)).collect::<Vec<_>>().join(", ")
            }
            PartTreeContent::Message(message) => shape(message, raw),
        };
        format!("{}[{inner}]", tree.media_type)
    }

    fn deepest(tree: &PartTree) -> usize {
        1 + match &tree.content {
            PartTreeContent::Leaf => 0,
            PartTreeContent::Multipart(parts) => parts.iter().map(deepest).max().unwrap_or_default(),
            PartTreeContent::Message(message) => deepest(message),
        }
    }

    #[test]
    fn a_hostile_message_is_followed_no_further_than_the_limits() {
        let forwarded = "Content-Type: message/rfc822\r\n\r\n".repeat(50_000);
        let limits = Limits { max_messages: 3, ..Limits::default() };
        assert_eq!(deepest(&PartTree::with_limits(forwarded.as_bytes(), &limits)), 4);
        let nested: String =
            (0..3_000).map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n")).collect();
        let limits = Limits { max_depth: 20, ..Limits::default() };
        let tree = PartTree::with_limits(format!("{forwarded}{nested}").as_bytes(), &limits);
        assert!(deepest(&tree) <= limits.max_depth + limits.max_messages + 1);
    }

    #[test]
    fn all_messages_together_have_no_more_parts_than_one() {
        let digest = format!(
            "Content-Type: multipart/digest; boundary=b\r\n\r\n{}--b--\r\n",
            "--b\r\n\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nx\r\n--c--\r\n".repeat(40)
        );
        let tree = PartTree::with_limits(digest.as_bytes(), &Limits { max_parts: 50, ..Limits::default() });
        fn parts(tree: &PartTree) -> usize {
            1 + match &tree.content {
                PartTreeContent::Leaf => 0,
                PartTreeContent::Multipart(children) => children.iter().map(parts).sum(),
                PartTreeContent::Message(message) => parts(message),
            }
        }
        assert!((41..=50).contains(&parts(&tree)), "{}", parts(&tree));
    }

    #[test]
    fn forwarded_messages_are_part_of_the_tree() {
        let raw = "Content-Type: multipart/mixed; boundary=o\r\n\r\n\
            --o\r\n\r\none\r\n\
            --o\r\nContent-Type: message/rfc822\r\n\r\n\
            Subject: two\r\nContent-Type: multipart/alternative; boundary=i\r\n\r\n\
            --i\r\n\r\nplain\r\n--i\r\nContent-Type: text/html\r\n\r\nhtml\r\n--i--\r\n\
            --o\r\nContent-Type: image/png\r\n\r\nabc\r\n--o--\r\n";
        assert_eq!(
            shape(&PartTree::of(raw.as_bytes()), raw),
            "multipart/mixed[text/plain[one], \
             message/rfc822[multipart/alternative[text/plain[plain], text/html[html]]], image/png[abc]]"
        );
    }

    proptest! {
        #[test]
        fn every_part_lies_within_what_holds_it(
            lines in prop::collection::vec(prop_oneof![
                Just("Content-Type: multipart/mixed; boundary=a"), Just("Content-Type: multipart/digest; boundary=b"),
                Just("--a"), Just("--b"), Just("--a--"), Just("--b--"), Just(""), Just("x"),
                Just("Content-Type: message/rfc822"),
            ], 0..60),
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            fn check(tree: &PartTree, within: &Range<usize>) {
                assert!(within.start <= tree.header.start && tree.header.end == tree.body.start);
                assert!(tree.body.start <= tree.body.end && tree.body.end <= within.end);
                match &tree.content {
                    PartTreeContent::Leaf => {}
                    PartTreeContent::Multipart(parts) => {
                        assert!(!parts.is_empty());
                        parts.iter().for_each(|part| check(part, &tree.body));
                    }
                    PartTreeContent::Message(message) => check(message, &tree.body),
                }
            }
            let mut raw = lines.join("\r\n").into_bytes();
            raw.extend(bytes);
            check(&PartTree::of(&raw), &(0..raw.len()));
        }
    }
}
