//! The data that a response to a command may contain.
//!
//! A server may report changes at any time: counts, flags, expunged messages. Contents come only on request
//! (RFC 3501 section 7.4.2). Unrequested contents therefore answer an earlier command, perhaps in another mailbox
//! where the same UID names another message.

use super::command::FetchAttribute;
use super::fetch::{FetchedMessage, FetchedSection};

/// The data that a command requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// No contents: status, counts and flags only.
    Nothing,
    /// SEARCH.
    Search,
    /// FETCH.
    Fetch(Messages, Vec<FetchAttribute>),
}

/// Messages that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Messages {
    /// By sequence numbers, from the first to the last.
    Numbers(u32, u32),
    /// By UIDs, ascending.
    Uids(Vec<u32>),
}

impl Messages {
    pub(super) fn of_uids(uids: &[u32]) -> Self {
        let mut uids = uids.to_vec();
        uids.sort_unstable();
        Self::Uids(uids)
    }

    /// Whether the command names this message.
    fn contain(&self, message: &FetchedMessage, is_complete: bool) -> bool {
        let is_wanted = |uid: u32| match self {
            Self::Numbers(first, last) => (*first..=*last).contains(&message.sequence),
            Self::Uids(uids) => uids.binary_search(&uid).is_ok(),
        };
        // Without a UID, a complete response cannot be matched to a message of the command. An incomplete one may
        // still name its UID later.
        message.uid.map_or(!is_complete, is_wanted)
    }
}

impl Asked {
    /// Whether the contents belong to this command. An incomplete response may name the message later.
    pub(super) fn includes(&self, message: &FetchedMessage, is_complete: bool) -> bool {
        let Self::Fetch(messages, attributes) = self else { return false };
        let is_asked = |section: &FetchedSection| attributes.iter().any(|attribute| attribute.is_answered_by(section));
        messages.contain(message, is_complete)
            && (message.envelope.is_none() || attributes.contains(&FetchAttribute::Envelope))
            && (message.body_structure.is_none() || attributes.contains(&FetchAttribute::BodyStructure))
            && message.sections.iter().all(is_asked)
    }
}

impl FetchAttribute {
    /// Whether the section answers this attribute.
    pub(super) fn is_answered_by(&self, fetched: &FetchedSection) -> bool {
        match self {
            Self::Section(section) => fetched.section.is_same(section) && fetched.origin.is_none(),
            Self::SectionSlice(section, from, _) => {
                // Some servers omit the origin when it is 0.
                fetched.section.is_same(section) && fetched.origin.unwrap_or_default() == *from
            }
            Self::Flags | Self::Size | Self::Arrived | Self::Envelope | Self::BodyStructure => false,
        }
    }
}
