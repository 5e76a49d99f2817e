//! Rules as they are stored: one line for each rule, condition and action, with fields between tabs.

use std::str::{FromStr, Split};

use super::{Comparison, Condition, FraudVerdict, Rule, RuleAction, RuleSet, TextField, Vacation};
use crate::EmailAddress;

/// The stored text is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored rules are damaged")]
pub struct DamagedRules;

impl RuleSet {
    /// Returns the rules as they are stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for rule in self.all() {
            line(&mut text, &["rule", if rule.enabled { "on" } else { "off" }, &rule.name]);
            rule.conditions.iter().for_each(|condition| condition.write(&mut text));
            rule.actions.iter().for_each(|action| action.write(&mut text));
        }
        text
    }

    /// Reads stored rules.
    ///
    /// # Errors
    /// [`DamagedRules`] if it is no such text.
    pub fn from_text(text: &str) -> Result<Self, DamagedRules> {
        let mut rules: Vec<Rule> = Vec::new();
        for line in text.split_terminator('\n') {
            let mut fields = Fields(line.split('\t'));
            match fields.next()?.as_str() {
                "rule" => rules.push(fields.rule()?),
                "if" => rules.last_mut().ok_or(DamagedRules)?.conditions.push(fields.condition()?),
                "do" => rules.last_mut().ok_or(DamagedRules)?.actions.push(fields.action()?),
                _ => return Err(DamagedRules),
            }
        }
        Ok(Self(rules))
    }
}

impl Condition {
    fn write(&self, text: &mut String) {
        match self {
            Self::Over(bytes) => line(text, &["if", "over", &bytes.to_string()]),
            Self::IsSpam => line(text, &["if", "spam"]),
            Self::Fraud(verdict) => line(text, &["if", "fraud", verdict.as_str()]),
            Self::Text { field, comparison, value } => {
                let comparison = match comparison {
                    Comparison::Contains => "contains",
                    Comparison::Is => "is",
                };
                match field {
                    TextField::From => line(text, &["if", "from", comparison, value]),
                    TextField::To => line(text, &["if", "to", comparison, value]),
                    TextField::Recipient => line(text, &["if", "recipient", comparison, value]),
                    TextField::Subject => line(text, &["if", "subject", comparison, value]),
                    TextField::Header(name) => line(text, &["if", "header", name, comparison, value]),
                }
            }
        }
    }
}

impl RuleAction {
    fn write(&self, text: &mut String) {
        match self {
            Self::Folder(name) => line(text, &["do", "folder", name.as_str()]),
            Self::Flag(flag) => line(text, &["do", "flag", flag]),
            Self::Forward(to) => line(text, &["do", "forward", to.shown()]),
            Self::Reject(said) => line(text, &["do", "reject", said]),
            Self::Stop => line(text, &["do", "stop"]),
            Self::Vacation(Vacation { subject, text: answer, days, addresses }) => {
                let addresses: Vec<_> = addresses.iter().map(EmailAddress::shown).collect();
                let addresses = addresses.join("\n");
                // A subject is never empty.
                let subject = subject.as_deref().unwrap_or_default();
                line(text, &["do", "vacation", &days.to_string(), subject, answer, &addresses]);
            }
        }
    }
}

/// Appends a line of fields.
fn line(text: &mut String, fields: &[&str]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            text.push('\t');
        }
        for character in field.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
    }
    text.push('\n');
}

/// The fields of a line that have not been read yet.
struct Fields<'a>(Split<'a, char>);

impl Fields<'_> {
    fn next(&mut self) -> Result<String, DamagedRules> {
        let written = self.0.next().ok_or(DamagedRules)?;
        let mut field = String::with_capacity(written.len());
        let mut characters = written.chars();
        while let Some(character) = characters.next() {
            field.push(match character {
                '\\' => match characters.next() {
                    Some('\\') => '\\',
                    Some('t') => '\t',
                    Some('n') => '\n',
                    _ => return Err(DamagedRules),
                },
                other => other,
            });
        }
        Ok(field)
    }

    fn parsed<T: FromStr>(&mut self) -> Result<T, DamagedRules> {
        self.next()?.parse().map_err(|_| DamagedRules)
    }

    fn address(text: &str) -> Result<EmailAddress, DamagedRules> {
        EmailAddress::as_given(text).map_err(|_| DamagedRules)
    }

    fn rule(&mut self) -> Result<Rule, DamagedRules> {
        let enabled = self.next()? == "on";
        Ok(Rule { name: self.next()?, enabled, conditions: Vec::new(), actions: Vec::new() })
    }

    fn condition(&mut self) -> Result<Condition, DamagedRules> {
        let field = match self.next()?.as_str() {
            "over" => return Ok(Condition::Over(self.parsed()?)),
            "spam" => return Ok(Condition::IsSpam),
            "fraud" => return Ok(Condition::Fraud(self.fraud_verdict()?)),
            "from" => TextField::From,
            "to" => TextField::To,
            "recipient" => TextField::Recipient,
            "subject" => TextField::Subject,
            "header" => TextField::Header(self.next()?),
            _ => return Err(DamagedRules),
        };
        let comparison = match self.next()?.as_str() {
            "contains" => Comparison::Contains,
            "is" => Comparison::Is,
            _ => return Err(DamagedRules),
        };
        Ok(Condition::Text { field, comparison, value: self.next()? })
    }

    fn fraud_verdict(&mut self) -> Result<FraudVerdict, DamagedRules> {
        let name = self.next()?;
        FraudVerdict::ALL.into_iter().find(|verdict| verdict.as_str() == name).ok_or(DamagedRules)
    }

    fn action(&mut self) -> Result<RuleAction, DamagedRules> {
        Ok(match self.next()?.as_str() {
            "folder" => RuleAction::Folder(self.parsed()?),
            "flag" => RuleAction::Flag(self.next()?),
            "forward" => RuleAction::Forward(Self::address(&self.next()?)?),
            "reject" => RuleAction::Reject(self.next()?),
            "stop" => RuleAction::Stop,
            "vacation" => RuleAction::Vacation(self.vacation()?),
            _ => return Err(DamagedRules),
        })
    }

    fn vacation(&mut self) -> Result<Vacation, DamagedRules> {
        let days = self.parsed()?;
        let subject = Some(self.next()?).filter(|subject| !subject.is_empty());
        let text = self.next()?;
        let addresses = self.next()?.split_terminator('\n').map(Self::address).collect::<Result<_, _>>()?;
        Ok(Vacation { subject, text, days, addresses })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition() -> impl Strategy<Value = Condition> {
        let field = prop_oneof![
            Just(TextField::From),
            Just(TextField::To),
            Just(TextField::Recipient),
            Just(TextField::Subject),
            "[!-9;-~]{1,20}".prop_map(TextField::Header),
        ];
        let comparison = prop_oneof![Just(Comparison::Contains), Just(Comparison::Is)];
        let text = (field, comparison, "[\\PC\t\n\\\\]{0,20}");
        prop_oneof![
            any::<u64>().prop_map(Condition::Over),
            Just(Condition::IsSpam),
            proptest::sample::select(FraudVerdict::ALL.to_vec()).prop_map(Condition::Fraud),
            text.prop_map(|(field, comparison, value)| Condition::Text { field, comparison, value }),
        ]
    }

    fn addresses() -> impl Strategy<Value = Vec<EmailAddress>> {
        prop::collection::vec("[a-zA-Z]{1,8}@[a-z]{1,8}\\.example".prop_map(|text| text.parse().unwrap()), 0..3)
    }

    fn action() -> impl Strategy<Value = RuleAction> {
        let vacation = (prop::option::of("\\PC{1,20}"), "[\\PC\r\n\t\\\\]{0,40}", any::<u32>(), addresses());
        prop_oneof![
            "[a-z/]{0,20}".prop_map(|name| name.parse().map_or(RuleAction::Stop, RuleAction::Folder)),
            "[\\\\a-zA-Z$]{1,10}".prop_map(RuleAction::Flag),
            addresses().prop_map(|mut all| all.pop().map_or(RuleAction::Stop, RuleAction::Forward)),
            "[ -~]{1,20}".prop_map(RuleAction::Reject),
            vacation.prop_map(|(subject, text, days, addresses)| {
                RuleAction::Vacation(Vacation { subject, text, days, addresses })
            }),
        ]
    }

    prop_compose! {
        fn rule()(
            name in "\\PC{0,20}", enabled: bool,
            conditions in prop::collection::vec(condition(), 0..4), actions in prop::collection::vec(action(), 0..4),
        ) -> Rule {
            Rule { name, enabled, conditions, actions }
        }
    }

    proptest! {
        #[test]
        fn stored_rules_come_back(rules in prop::collection::vec(rule(), 0..4)) {
            let rules = RuleSet(rules);
            prop_assert_eq!(RuleSet::from_text(&rules.to_text()), Ok(rules));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "((rule|if|do|on|from|is|vacation|1|\\PC)[\t\n\\\\]{0,2}){0,12}") {
            let _ = RuleSet::from_text(&text);
        }
    }
}
