//! Rules of a mailbox: what happens to messages that arrive.
//!
//! A rule has conditions and actions. All rules whose conditions hold apply, in their order, until one stops or rejects.

mod check;
mod ruling;
mod sieve;
mod text;

use crate::{EmailAddress, FolderName};

pub use check::{ActionFields, ConditionFields, ConditionValue, RuleFields};
pub use ruling::{RuleFacts, Ruling};
pub use text::DamagedRules;

/// The header field with the address that a message was sent to (RFC 9228).
const DELIVERED_TO: &str = "Delivered-To";

/// The rules of a mailbox, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet(Vec<Rule>);

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name for people.
    pub name: String,
    /// Whether it is applied.
    pub enabled: bool,
    /// What a message must be. Without conditions, the rule applies to every message that is not junk.
    pub conditions: Vec<Condition>,
    /// What happens to the message.
    pub actions: Vec<RuleAction>,
}

/// A condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A text of the header, or the recipient.
    Text {
        /// Which text.
        field: TextField,
        /// How it is compared, ignoring case.
        comparison: Comparison,
        /// The text to compare with.
        value: String,
    },
    /// The message has more bytes.
    Over(u64),
    /// The message is junk.
    IsSpam,
    /// The security analysis found signs of fraud.
    Fraud(FraudVerdict),
}

/// The verdicts of the security analysis that rules compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FraudVerdict {
    /// `suspicious`, or worse.
    Suspicious,
    /// `dangerous`.
    Dangerous,
}

impl FraudVerdict {
    /// All verdicts.
    pub const ALL: [Self; 2] = [Self::Suspicious, Self::Dangerous];

    /// The name in rules and in a [`SecurityMark`](crate::SecurityMark).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspicious => "suspicious",
            Self::Dangerous => "dangerous",
        }
    }

    /// Returns the names of this verdict and of worse ones.
    fn and_worse(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().skip_while(move |verdict| *verdict != self).map(Self::as_str)
    }
}

/// A text of the header, or the recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextField {
    /// The authors.
    From,
    /// The recipients in To and Cc.
    To,
    /// The address that the message was sent to (RCPT). The header may name others.
    Recipient,
    /// The subject.
    Subject,
    /// All fields with this name.
    Header(String),
}

/// How texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// One contains the other.
    Contains,
    /// They are equal; of people, an address.
    Is,
}

/// An action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAction {
    /// Stores the message in this folder instead of INBOX. The first such action decides.
    Folder(FolderName),
    /// Sets a flag, such as `\Flagged`, or a keyword.
    Flag(String),
    /// Sends a copy to this address. The mailbox keeps the message.
    Forward(EmailAddress),
    /// Refuses the message with this text.
    Reject(String),
    /// Answers its sender.
    Vacation(Vacation),
    /// Ends the rules.
    Stop,
}

/// An automatic answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vacation {
    /// The subject; `None` derives it from that of the message.
    pub subject: Option<String>,
    /// The text.
    pub text: String,
    /// A sender gets no further answer for so many days.
    pub days: u32,
    /// Further addresses of the owner. Mail to other addresses, such as those of lists and aliases, is not answered.
    pub addresses: Vec<EmailAddress>,
}

impl RuleSet {
    /// Returns the rules in their order.
    #[must_use]
    pub fn all(&self) -> &[Rule] {
        &self.0
    }

    /// Returns the addresses to which the rules forward, and those of owners in answers.
    pub fn addresses(&self) -> impl Iterator<Item = &EmailAddress> {
        self.0.iter().flat_map(|rule| &rule.actions).flat_map(|action| match action {
            RuleAction::Forward(to) => std::slice::from_ref(to),
            RuleAction::Vacation(vacation) => vacation.addresses.as_slice(),
            _ => &[],
        })
    }

    /// Returns whether rules compare the address that a message was sent to.
    #[must_use]
    pub fn compare_recipient(&self) -> bool {
        let is_compared = |condition: &Condition| match condition {
            Condition::Text { field: TextField::Recipient, .. } => true,
            Condition::Text { field: TextField::Header(name), .. } => name.eq_ignore_ascii_case(DELIVERED_TO),
            _ => false,
        };
        self.0.iter().any(|rule| rule.enabled && rule.conditions.iter().any(is_compared))
    }

    /// Returns whether rules compare the verdict of the security analysis.
    #[must_use]
    pub fn compare_fraud(&self) -> bool {
        self.0.iter().any(Rule::is_about_fraud)
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    /// Returns whether the rule is about junk. No other rule applies to it.
    #[must_use]
    pub fn is_about_spam(&self) -> bool {
        self.conditions.contains(&Condition::IsSpam)
    }

    /// Returns whether the rule is about signs of fraud.
    fn is_about_fraud(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, Condition::Fraud(_)))
    }
}
