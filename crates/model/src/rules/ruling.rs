//! What the rules decide about a message.

use std::rc::Rc;

use super::{Comparison, Condition, Rule, RuleAction, RuleSet, TextField, Vacation};
use crate::{EmailAddress, FolderName, SecurityMark};

/// A message, as far as rules compare it.
pub trait RuleFacts {
    /// The decoded values of all header fields with this name, in lower case.
    fn texts(&self, field: &str) -> Rc<[String]>;

    /// Returns whether a decoded value of a field with this name contains a text in lower case, which is one line. Rules of
    /// many mailboxes may ask for the same.
    fn contains(&self, field: &str, text: &str) -> bool {
        self.texts(field).iter().any(|value| value.contains(text))
    }

    /// The addresses in all header fields with this name, in lower case.
    fn addresses(&self, field: &str) -> Rc<[String]>;

    /// The size in bytes.
    fn size(&self) -> u64;

    /// Whether the message is junk.
    fn is_spam(&self) -> bool;

    /// The address that it was sent to, in its canonical form.
    fn recipient(&self) -> &str;
}

/// What the rules decide about a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruling {
    /// The folder; `None` for the usual one.
    pub folder: Option<FolderName>,
    /// Flags and keywords, each once.
    pub flags: Vec<String>,
    /// The addresses that get a copy, each once.
    pub forward: Vec<EmailAddress>,
    /// The text of a refusal, which excludes all other actions.
    pub reject: Option<String>,
    /// The answer.
    pub vacation: Option<Vacation>,
}

impl RuleSet {
    /// Applies the rules to a message.
    #[must_use]
    pub fn ruling(&self, message: &impl RuleFacts) -> Ruling {
        let mut ruling = Ruling::default();
        for rule in self.all().iter().filter(|rule| rule.enabled && rule.holds(message)) {
            for action in &rule.actions {
                match action {
                    RuleAction::Stop => return ruling,
                    RuleAction::Reject(text) => return Ruling { reject: Some(text.clone()), ..Ruling::default() },
                    action => ruling.add(action),
                }
            }
        }
        ruling
    }
}

impl Ruling {
    /// Adds an action that does not end the rules.
    fn add(&mut self, action: &RuleAction) {
        match action {
            RuleAction::Folder(name) => _ = self.folder.get_or_insert_with(|| name.clone()),
            RuleAction::Flag(flag) if !self.flags.contains(flag) => self.flags.push(flag.clone()),
            RuleAction::Forward(to) if !self.forward.contains(to) => self.forward.push(to.clone()),
            RuleAction::Vacation(vacation) => _ = self.vacation.get_or_insert_with(|| vacation.clone()),
            RuleAction::Flag(_) | RuleAction::Forward(_) | RuleAction::Reject(_) | RuleAction::Stop => {}
        }
    }
}

impl Rule {
    fn holds(&self, message: &impl RuleFacts) -> bool {
        // A rule that was written for mail from a person must not take junk with a forged author out of its folder.
        (self.is_about_spam() || !message.is_spam()) && self.conditions.iter().all(|condition| condition.holds(message))
    }
}

impl Condition {
    fn holds(&self, message: &impl RuleFacts) -> bool {
        match self {
            Self::Over(bytes) => message.size() > *bytes,
            Self::IsSpam => message.is_spam(),
            Self::Fraud(verdict) => {
                let found = |text: &String| SecurityMark::of_field(text).verdict;
                message
                    .texts(SecurityMark::FIELD)
                    .iter()
                    .map(found)
                    .any(|found| verdict.and_worse().any(|name| name == found))
            }
            Self::Text { field: TextField::Recipient, comparison, value } => {
                is_recipient(message.recipient(), *comparison, value.trim())
            }
            Self::Text { field, comparison, value } => {
                let value = value.trim().to_lowercase();
                field.names().iter().any(|name| match comparison {
                    Comparison::Contains => message.contains(name, &value),
                    Comparison::Is if field.is_people() => message.addresses(name).contains(&value),
                    Comparison::Is => message.texts(name).iter().any(|text| text.trim() == value),
                })
            }
        }
    }
}

/// Compares the recipient. Rules may have its domain in Unicode.
fn is_recipient(recipient: &str, comparison: Comparison, value: &str) -> bool {
    match comparison {
        Comparison::Contains => recipient.contains(&value.to_lowercase()),
        Comparison::Is => value.parse().is_ok_and(|value: EmailAddress| value.as_str() == recipient),
    }
}

impl TextField {
    /// Returns the names of the header fields.
    fn names(&self) -> Vec<&str> {
        match self {
            // It is not in the header.
            Self::Recipient => Vec::new(),
            Self::From => vec!["from"],
            Self::To => vec!["to", "cc"],
            Self::Subject => vec!["subject"],
            Self::Header(name) => vec![name],
        }
    }

    const fn is_people(&self) -> bool {
        matches!(self, Self::From | Self::To)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FraudVerdict;

    #[derive(Default)]
    struct Message {
        texts: Vec<String>,
        addresses: Vec<String>,
        is_spam: bool,
        recipient: String,
    }

    impl RuleFacts for Message {
        fn texts(&self, field: &str) -> Rc<[String]> {
            if matches!(field, "from" | "subject" | "List-Id") { self.texts.clone().into() } else { Rc::default() }
        }

        fn addresses(&self, field: &str) -> Rc<[String]> {
            if field == "from" { self.addresses.clone().into() } else { Rc::default() }
        }

        fn size(&self) -> u64 {
            1_000
        }

        fn is_spam(&self) -> bool {
            self.is_spam
        }

        fn recipient(&self) -> &str {
            &self.recipient
        }
    }

    fn message() -> Message {
        let texts = vec!["zoe ünal <zoe@far.example>".to_owned()];
        let recipient = "bob+shop@xn--mnchen-3ya.example".to_owned();
        Message { texts, addresses: vec!["zoe@far.example".to_owned()], is_spam: false, recipient }
    }

    fn text(field: TextField, comparison: Comparison, value: &str) -> Condition {
        Condition::Text { field, comparison, value: value.to_owned() }
    }

    fn rule(conditions: Vec<Condition>, actions: Vec<RuleAction>) -> Rule {
        Rule { name: String::new(), enabled: true, conditions, actions }
    }

    fn folder(name: &str) -> RuleAction {
        RuleAction::Folder(name.parse().unwrap())
    }

    fn holds(condition: Condition, message: &Message) -> bool {
        RuleSet(vec![rule(vec![condition], vec![folder("x")])]).ruling(message).folder.is_some()
    }

    #[test]
    fn texts_and_addresses_are_compared_without_case() {
        let message = message();
        for (condition, expected) in [
            (text(TextField::From, Comparison::Contains, "ÜNAL"), true),
            (text(TextField::From, Comparison::Contains, "@FAR."), true),
            (text(TextField::From, Comparison::Is, "Zoe@far.example"), true),
            (text(TextField::From, Comparison::Is, "zoe"), false),
            (text(TextField::To, Comparison::Contains, "zoe"), false),
            (text(TextField::Subject, Comparison::Is, "Zoe Ünal <zoe@far.example>"), true),
            (text(TextField::Header("List-Id".to_owned()), Comparison::Contains, "zoe"), true),
            (text(TextField::Header("X-Other".to_owned()), Comparison::Contains, "zoe"), false),
            (text(TextField::Recipient, Comparison::Is, "Bob+Shop@münchen.example"), true),
            (text(TextField::Recipient, Comparison::Is, "bob@münchen.example"), false),
            (text(TextField::Recipient, Comparison::Is, "bob"), false),
            (text(TextField::Recipient, Comparison::Contains, "+SHOP@"), true),
            (text(TextField::Recipient, Comparison::Contains, "zoe"), false),
            (Condition::Over(999), true),
            (Condition::Over(1_000), false),
            (Condition::IsSpam, false),
        ] {
            assert_eq!(holds(condition.clone(), &message), expected, "{condition:?}");
        }
    }

    #[test]
    fn a_verdict_is_the_first_word_of_its_field() {
        let holds = |verdict, field: &str| {
            let message = VerdictMessage(field.to_owned());
            Condition::Fraud(verdict).holds(&message)
        };
        use FraudVerdict::{Dangerous, Suspicious};
        for (field, is_suspicious, is_dangerous) in [
            ("clean", false, false),
            ("unknown", false, false),
            ("suspicious (macros)", true, false),
            ("dangerous", true, true),
            ("dangerously (dangerous)", false, false),
            ("", false, false),
        ] {
            assert_eq!((holds(Suspicious, field), holds(Dangerous, field)), (is_suspicious, is_dangerous), "{field}");
        }
    }

    /// A message with a verdict of the security analysis.
    struct VerdictMessage(String);

    impl RuleFacts for VerdictMessage {
        fn texts(&self, field: &str) -> Rc<[String]> {
            if field == SecurityMark::FIELD { [self.0.clone()].into() } else { Rc::default() }
        }

        fn addresses(&self, _: &str) -> Rc<[String]> {
            Rc::default()
        }

        fn size(&self) -> u64 {
            0
        }

        fn is_spam(&self) -> bool {
            false
        }

        fn recipient(&self) -> &str {
            ""
        }
    }

    #[test]
    fn only_rules_for_junk_apply_to_junk() {
        let junk = Message { is_spam: true, ..message() };
        let rules = RuleSet(vec![rule(vec![], vec![folder("a")]), rule(vec![Condition::IsSpam], vec![folder("b")])]);
        assert_eq!(rules.ruling(&junk).folder.unwrap().as_str(), "b");
        assert_eq!(rules.ruling(&message()).folder.unwrap().as_str(), "a");
    }

    #[test]
    fn rules_apply_in_their_order_until_one_ends_them() {
        let off = Rule { enabled: false, ..rule(vec![], vec![folder("off")]) };
        let flag = |name: &str| RuleAction::Flag(name.to_owned());
        let one = rule(vec![], vec![folder("one"), flag("a")]);
        let two = rule(vec![], vec![folder("two"), flag("b"), flag("a"), RuleAction::Stop, flag("c")]);
        let rules = RuleSet(vec![off, one.clone(), two, rule(vec![], vec![flag("d")])]);
        let ruling = rules.ruling(&message());
        assert_eq!((ruling.folder.unwrap().as_str(), ruling.flags), ("one", vec!["a".to_owned(), "b".to_owned()]));

        let rejecting = rule(vec![], vec![RuleAction::Reject("no".to_owned())]);
        let ruling = RuleSet(vec![one, rejecting]).ruling(&message());
        assert_eq!(ruling, Ruling { reject: Some("no".to_owned()), ..Ruling::default() });
    }
}
