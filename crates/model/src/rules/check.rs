//! Checks of rules that a client wrote.

use std::fmt;

use super::{Comparison, Condition, FraudVerdict, Rule, RuleAction, RuleSet, TextField, Vacation};
use crate::{EmailAddress, FolderName, OneLine, Violations};

/// A rule as a client wrote it.
#[derive(Debug, Clone, Default)]
pub struct RuleFields {
    /// Its name.
    pub name: String,
    /// Whether it is applied.
    pub enabled: bool,
    /// Its conditions.
    pub conditions: Vec<ConditionFields>,
    /// Its actions.
    pub actions: Vec<ActionFields>,
}

/// A condition as a client wrote it.
#[derive(Debug, Clone, Default)]
pub struct ConditionFields {
    /// `from`, `to`, `recipient`, `subject`, `header`, `size` or `verdict`.
    pub field: String,
    /// The name of a header field.
    pub name: Option<String>,
    /// `contains`, `is` or `over`.
    pub op: String,
    /// The value to compare with.
    pub value: ConditionValue,
}

impl ConditionFields {
    /// All names of `field`.
    pub const FIELDS: [&str; 7] = ["from", "to", "recipient", "subject", "header", "size", "verdict"];
    /// All names of `op`.
    pub const COMPARISONS: [&str; 3] = ["contains", "is", "over"];
}

/// The value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionValue {
    /// A text.
    Text(String),
    /// A number of bytes.
    Number(u64),
}

impl fmt::Display for ConditionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Default for ConditionValue {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// An action as a client wrote it.
#[derive(Debug, Clone, Default)]
pub struct ActionFields {
    /// `folder`, `flag`, `forward`, `reject`, `vacation` or `stop`.
    pub kind: String,
    /// The folder.
    pub folder: Option<String>,
    /// The flag.
    pub flag: Option<String>,
    /// The address that gets a copy.
    pub to: Option<EmailAddress>,
    /// The text of a refusal or an answer.
    pub text: Option<String>,
    /// The subject of an answer.
    pub subject: Option<String>,
    /// A sender gets no further answer for so many days.
    pub days: Option<u64>,
    /// Further addresses of the owner.
    pub addresses: Option<Vec<EmailAddress>>,
}

impl ActionFields {
    /// All names of `kind`.
    pub const KINDS: [&str; 6] = ["folder", "flag", "forward", "reject", "vacation", "stop"];
}

/// A violation of one member of an object: its name, and what it must be.
type Wrong = (&'static str, String);

impl RuleSet {
    /// Maximum number of rules. Every message to the mailbox is compared with all of them.
    pub const MAX_RULES: usize = 100;
    /// Maximum number of conditions of a rule.
    pub const MAX_CONDITIONS: usize = 20;
    /// Maximum number of actions of a rule.
    pub const MAX_ACTIONS: usize = 5;
    /// Maximum number of addresses to which the rules forward. Each gets a copy of the same message.
    pub const MAX_FORWARDS: usize = 10;
    /// Maximum size of all rules in bytes, as they are stored.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// Maximum number of characters of a value to compare with.
    const MAX_VALUE: usize = 500;
    /// Maximum number of characters of the text of a refusal. A line of SMTP has 512 bytes.
    const MAX_REFUSAL: usize = 300;
    /// Maximum number of bytes of the text of an answer.
    const MAX_ANSWER: usize = 10_000;
    /// Maximum number of days without a further answer.
    const MAX_DAYS: u64 = 90;
    /// Days without a further answer, unless the rule says otherwise (RFC 5230 section 4.1).
    const DAYS: u64 = 7;

    /// Checks the rules of the mailbox `owner`.
    ///
    /// # Errors
    /// The violations, for members such as `rules[0].match.all[1].value`.
    pub fn check(owner: &EmailAddress, rules: Vec<RuleFields>) -> Result<Self, Violations> {
        if rules.len() > Self::MAX_RULES {
            return Err(Violations::of("rules", format!("must be at most {}", Self::MAX_RULES)));
        }
        let mut violations = Violations::none();
        let checked: Vec<_> = rules
            .into_iter()
            .enumerate()
            .filter_map(|(place, rule)| checked_rule(owner, rule, &format!("rules[{place}]"), &mut violations))
            .collect();
        let set = Self(checked);
        if set.forwards().len() > Self::MAX_FORWARDS {
            violations.add("rules", format!("must forward to at most {} addresses", Self::MAX_FORWARDS));
        }
        if set.to_text().len() > Self::MAX_BYTES {
            violations.add("rules", format!("must have at most {} bytes together", Self::MAX_BYTES));
        }
        if violations.is_empty() { Ok(set) } else { Err(violations) }
    }

    /// Returns the addresses to which the rules forward, each once.
    fn forwards(&self) -> std::collections::HashSet<&EmailAddress> {
        let actions = self.0.iter().flat_map(|rule| &rule.actions);
        actions.filter_map(RuleAction::forwards_to).collect()
    }
}

fn checked_rule(owner: &EmailAddress, rule: RuleFields, place: &str, violations: &mut Violations) -> Option<Rule> {
    let RuleFields { name, enabled, conditions, actions } = rule;
    let name = violations.merge(OneLine::parse(&format!("{place}.name"), &name));
    if conditions.len() > RuleSet::MAX_CONDITIONS {
        violations.add(format!("{place}.match.all"), format!("must be at most {}", RuleSet::MAX_CONDITIONS));
        return None;
    }
    if actions.is_empty() || actions.len() > RuleSet::MAX_ACTIONS {
        violations.add(format!("{place}.actions"), format!("must be 1 to {}", RuleSet::MAX_ACTIONS));
        return None;
    }
    let mut all_conditions = Vec::with_capacity(conditions.len());
    for (at, fields) in conditions.into_iter().enumerate() {
        let at = format!("{place}.match.all[{at}]");
        all_conditions.extend(kept(Condition::checked(fields), &at, violations));
    }
    let has_verdict = all_conditions.iter().any(|found| matches!(found, Condition::IsSpam | Condition::Fraud(_)));
    let mut all_actions = Vec::with_capacity(actions.len());
    for (at, fields) in actions.into_iter().enumerate() {
        let at = format!("{place}.actions[{at}]");
        let action = RuleAction::checked(fields, owner).and_then(|action| action.allowed(has_verdict));
        all_actions.extend(kept(action, &at, violations));
    }
    Some(Rule { name: name?, enabled, conditions: all_conditions, actions: all_actions })
}

/// Adds the violation of an object at `place`, or returns its value.
fn kept<T>(checked: Result<T, Wrong>, place: &str, violations: &mut Violations) -> Option<T> {
    checked.map_err(|(member, message)| violations.add(format!("{place}.{member}"), message)).ok()
}

fn wrong<T>(member: &'static str, message: impl Into<String>) -> Result<T, Wrong> {
    Err((member, message.into()))
}

impl Condition {
    fn checked(fields: ConditionFields) -> Result<Self, Wrong> {
        let ConditionFields { field, name, op, value } = fields;
        let field = match field.as_str() {
            "from" => TextField::From,
            "to" => TextField::To,
            "recipient" => TextField::Recipient,
            "subject" => TextField::Subject,
            "header" => TextField::Header(field_name(name)?),
            "size" => return Self::size(&op, &value),
            "verdict" => return Self::verdict(&op, &value),
            _ => return wrong("field", "must be from, to, recipient, subject, header, size or verdict"),
        };
        let comparison = match op.as_str() {
            "contains" => Comparison::Contains,
            "is" => Comparison::Is,
            _ => return wrong("op", "must be contains or is"),
        };
        let ConditionValue::Text(value) = value else { return wrong("value", "must be a string") };
        let value = one_line("value", value, RuleSet::MAX_VALUE)?;
        Ok(Self::Text { field, comparison, value })
    }

    fn size(op: &str, value: &ConditionValue) -> Result<Self, Wrong> {
        match value {
            _ if op != "over" => wrong("op", "must be over"),
            ConditionValue::Number(bytes) => Ok(Self::Over(*bytes)),
            ConditionValue::Text(_) => wrong("value", "must be a number of bytes"),
        }
    }

    fn verdict(op: &str, value: &ConditionValue) -> Result<Self, Wrong> {
        match value {
            _ if op != "is" => wrong("op", "must be is"),
            ConditionValue::Text(text) if text == "spam" => Ok(Self::IsSpam),
            ConditionValue::Text(text) => FraudVerdict::ALL
                .into_iter()
                .find(|verdict| verdict.as_str() == text)
                .map(Self::Fraud)
                .ok_or(("value", "must be spam, suspicious or dangerous".to_owned())),
            ConditionValue::Number(_) => wrong("value", "must be spam, suspicious or dangerous"),
        }
    }
}

/// Checks the name of a header field (RFC 5322 section 2.2).
fn field_name(name: Option<String>) -> Result<String, Wrong> {
    let is_name = |name: &String| {
        (1..=76).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
    };
    name.filter(is_name).ok_or(("name", "must be the name of a header field".to_owned()))
}

/// Checks a text of one line that is not empty.
fn one_line(member: &'static str, text: String, most: usize) -> Result<String, Wrong> {
    if text.trim().is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
        return wrong(member, format!("must have 1 to {most} characters, without control characters"));
    }
    Ok(text)
}

impl RuleAction {
    pub(super) const fn forwards_to(&self) -> Option<&EmailAddress> {
        if let Self::Forward(to) = self { Some(to) } else { None }
    }

    fn checked(fields: ActionFields, owner: &EmailAddress) -> Result<Self, Wrong> {
        match fields.kind.as_str() {
            "folder" => fields.folder(),
            "flag" => fields.flag(),
            "forward" => fields.forward(owner),
            "reject" => fields.reject(),
            "vacation" => fields.vacation(),
            "stop" => Ok(Self::Stop),
            _ => wrong("type", "must be folder, flag, forward, reject, vacation or stop"),
        }
    }

    /// The sender of junk and fraud is forged, and other servers would take this server for its origin.
    fn allowed(self, has_verdict: bool) -> Result<Self, Wrong> {
        match self {
            Self::Forward(_) | Self::Reject(_) | Self::Vacation(_) if has_verdict => {
                wrong("type", "must be folder, flag or stop in a rule with a verdict")
            }
            action => Ok(action),
        }
    }
}

impl ActionFields {
    fn folder(self) -> Result<RuleAction, Wrong> {
        let name = self.folder.as_deref().unwrap_or_default().parse::<FolderName>();
        name.map(RuleAction::Folder).map_err(|error| ("folder", error.to_string()))
    }

    fn flag(self) -> Result<RuleAction, Wrong> {
        const SYSTEM: [&str; 3] = ["\\Answered", "\\Flagged", "\\Seen"];
        let flag = self.flag.unwrap_or_default();
        if let Some(system) = SYSTEM.iter().find(|system| system.eq_ignore_ascii_case(&flag)) {
            return Ok(RuleAction::Flag((*system).to_owned()));
        }
        let is_keyword = |byte: u8| byte.is_ascii_alphanumeric() || b"$_.-".contains(&byte);
        if !(1..=50).contains(&flag.len()) || !flag.bytes().all(is_keyword) {
            return wrong("flag", "must be \\Seen, \\Flagged, \\Answered, or a keyword of letters, digits and $_.-");
        }
        Ok(RuleAction::Flag(flag))
    }

    fn forward(self, owner: &EmailAddress) -> Result<RuleAction, Wrong> {
        match self.to {
            None => wrong("to", "is required"),
            Some(to) if to == *owner => wrong("to", "must not be the mailbox itself"),
            Some(to) if to.is_catch_all() => wrong("to", "must not be a catch-all"),
            Some(to) => Ok(RuleAction::Forward(to)),
        }
    }

    fn reject(self) -> Result<RuleAction, Wrong> {
        let text = one_line("text", self.text.unwrap_or_default(), RuleSet::MAX_REFUSAL)?;
        // Replies of SMTP are in ASCII, unless the client asked for others (RFC 6531 section 3.7.4).
        if text.is_ascii() { Ok(RuleAction::Reject(text)) } else { wrong("text", "must be in ASCII") }
    }

    fn vacation(self) -> Result<RuleAction, Wrong> {
        let text = self.text.unwrap_or_default();
        let is_text = |c: char| !c.is_control() || "\r\n\t".contains(c);
        if text.trim().is_empty() || text.len() > RuleSet::MAX_ANSWER || !text.chars().all(is_text) {
            return wrong("text", format!("must have 1 to {} bytes of plain text", RuleSet::MAX_ANSWER));
        }
        let days = self.days.unwrap_or(RuleSet::DAYS);
        if !(1..=RuleSet::MAX_DAYS).contains(&days) {
            return wrong("days", format!("must be 1 to {}", RuleSet::MAX_DAYS));
        }
        let addresses = self.addresses.unwrap_or_default();
        if addresses.len() > RuleSet::MAX_FORWARDS {
            return wrong("addresses", format!("must be at most {}", RuleSet::MAX_FORWARDS));
        }
        let subject = self.subject.map(|subject| one_line("subject", subject, OneLine::MAX_CHARACTERS)).transpose()?;
        let days = u32::try_from(days).unwrap_or(u32::MAX);
        Ok(RuleAction::Vacation(Vacation { subject, text, days, addresses }))
    }
}

impl From<&Rule> for RuleFields {
    fn from(rule: &Rule) -> Self {
        Self {
            name: rule.name.clone(),
            enabled: rule.enabled,
            conditions: rule.conditions.iter().map(ConditionFields::from).collect(),
            actions: rule.actions.iter().map(ActionFields::from).collect(),
        }
    }
}

impl From<&Condition> for ConditionFields {
    fn from(condition: &Condition) -> Self {
        let of = |field: &str, op: &str, value| Self { field: field.to_owned(), name: None, op: op.to_owned(), value };
        match condition {
            Condition::Over(bytes) => of("size", "over", ConditionValue::Number(*bytes)),
            Condition::IsSpam => of("verdict", "is", ConditionValue::Text("spam".to_owned())),
            Condition::Fraud(verdict) => of("verdict", "is", ConditionValue::Text(verdict.as_str().to_owned())),
            Condition::Text { field, comparison, value } => {
                let op = match comparison {
                    Comparison::Contains => "contains",
                    Comparison::Is => "is",
                };
                let (field, name) = match field {
                    TextField::From => ("from", None),
                    TextField::To => ("to", None),
                    TextField::Recipient => ("recipient", None),
                    TextField::Subject => ("subject", None),
                    TextField::Header(name) => ("header", Some(name.clone())),
                };
                Self { name, ..of(field, op, ConditionValue::Text(value.clone())) }
            }
        }
    }
}

impl From<&RuleAction> for ActionFields {
    fn from(action: &RuleAction) -> Self {
        let of = |kind: &str| Self { kind: kind.to_owned(), ..Self::default() };
        match action {
            RuleAction::Folder(folder) => Self { folder: Some(folder.as_str().to_owned()), ..of("folder") },
            RuleAction::Flag(flag) => Self { flag: Some(flag.clone()), ..of("flag") },
            RuleAction::Forward(to) => Self { to: Some(to.clone()), ..of("forward") },
            RuleAction::Reject(text) => Self { text: Some(text.clone()), ..of("reject") },
            RuleAction::Stop => of("stop"),
            RuleAction::Vacation(vacation) => Self {
                subject: vacation.subject.clone(),
                text: Some(vacation.text.clone()),
                days: Some(vacation.days.into()),
                addresses: Some(vacation.addresses.clone()),
                ..of("vacation")
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> EmailAddress {
        "ann@a.example".parse().unwrap()
    }

    fn text(text: &str) -> ConditionValue {
        ConditionValue::Text(text.to_owned())
    }

    fn condition(field: &str, op: &str, value: ConditionValue) -> ConditionFields {
        ConditionFields { field: field.to_owned(), name: None, op: op.to_owned(), value }
    }

    fn stop() -> ActionFields {
        ActionFields { kind: "stop".to_owned(), ..ActionFields::default() }
    }

    fn forward(to: &str) -> ActionFields {
        ActionFields { kind: "forward".to_owned(), to: Some(to.parse().unwrap()), ..ActionFields::default() }
    }

    fn fields(rules: Vec<RuleFields>) -> Vec<String> {
        let violations = RuleSet::check(&owner(), rules).unwrap_err();
        violations.all().iter().map(|violation| violation.field.clone()).collect()
    }

    fn rule(conditions: Vec<ConditionFields>, actions: Vec<ActionFields>) -> RuleFields {
        RuleFields { name: "x".to_owned(), enabled: true, conditions, actions }
    }

    #[test]
    fn conditions_that_have_no_meaning_are_refused() {
        for (field, op, value, member) in [
            ("body", "is", text("x"), "field"),
            ("from", "over", text("x"), "op"),
            ("from", "is", text(" "), "value"),
            ("from", "is", text("a\nb"), "value"),
            ("from", "is", text(&"x".repeat(501)), "value"),
            ("from", "is", ConditionValue::Number(1), "value"),
            ("recipient", "over", text("x"), "op"),
            ("header", "is", text("x"), "name"),
            ("size", "is", ConditionValue::Number(1), "op"),
            ("size", "over", text("1"), "value"),
            ("verdict", "contains", text("spam"), "op"),
            ("verdict", "is", text("clean"), "value"),
            ("verdict", "is", ConditionValue::Number(1), "value"),
            ("verdict", "is", text("ham"), "value"),
        ] {
            let expected = format!("rules[0].match.all[0].{member}");
            assert_eq!(fields(vec![rule(vec![condition(field, op, value)], vec![stop()])]), [expected], "{field} {op}");
        }
    }

    #[test]
    fn actions_that_cannot_be_done_are_refused() {
        let of = |kind: &str| ActionFields { kind: kind.to_owned(), ..ActionFields::default() };
        let long = Some("x".repeat(10_001));
        for (action, member) in [
            (of("discard"), "type"),
            (of("folder"), "folder"),
            (ActionFields { folder: Some("a//b".to_owned()), ..of("folder") }, "folder"),
            (ActionFields { flag: Some("\\Deleted".to_owned()), ..of("flag") }, "flag"),
            (ActionFields { flag: Some("a b".to_owned()), ..of("flag") }, "flag"),
            (of("forward"), "to"),
            (forward("Ann@a.example"), "to"),
            (forward("*@b.example"), "to"),
            (of("reject"), "text"),
            (ActionFields { text: Some("nein, natürlich".to_owned()), ..of("reject") }, "text"),
            (ActionFields { text: Some("a\r\n250 ok".to_owned()), ..of("reject") }, "text"),
            (of("vacation"), "text"),
            (ActionFields { text: long, ..of("vacation") }, "text"),
            (ActionFields { text: Some("Hi".to_owned()), days: Some(0), ..of("vacation") }, "days"),
            (
                ActionFields { text: Some("Hi".to_owned()), subject: Some("a\nb".to_owned()), ..of("vacation") },
                "subject",
            ),
        ] {
            let expected = format!("rules[0].actions[0].{member}");
            assert_eq!(fields(vec![rule(vec![], vec![action.clone()])]), [expected], "{action:?}");
        }
        for verdict in ["spam", "suspicious", "dangerous"] {
            let about = || vec![condition("verdict", "is", text(verdict))];
            assert_eq!(fields(vec![rule(about(), vec![forward("bob@b.example")])]), ["rules[0].actions[0].type"]);
            assert!(RuleSet::check(&owner(), vec![rule(about(), vec![stop()])]).is_ok());
        }
    }

    #[test]
    fn checked_rules_are_written_as_they_were() {
        let header = ConditionFields { name: Some("List-Id".to_owned()), ..condition("header", "is", text("x")) };
        let conditions = vec![
            condition("from", "contains", text("x")),
            condition("to", "is", text("x")),
            condition("recipient", "contains", text("x")),
            condition("subject", "is", text("x")),
            header,
            condition("size", "over", ConditionValue::Number(7)),
        ];
        let of = |kind: &str| ActionFields { kind: kind.to_owned(), ..ActionFields::default() };
        let vacation = ActionFields {
            text: Some("Away.".to_owned()),
            subject: Some("Away".to_owned()),
            days: Some(3),
            addresses: Some(vec!["team@a.example".parse().unwrap()]),
            ..of("vacation")
        };
        let actions = vec![
            ActionFields { folder: Some("Lists".to_owned()), ..of("folder") },
            ActionFields { flag: Some("\\Seen".to_owned()), ..of("flag") },
            forward("bob@b.example"),
            vacation,
            ActionFields { text: Some("No.".to_owned()), ..of("reject") },
        ];
        let verdicts = ["spam", "suspicious", "dangerous"];
        let about = verdicts.map(|verdict| condition("verdict", "is", text(verdict)));
        let checked =
            RuleSet::check(&owner(), vec![rule(conditions, actions), rule(about.into(), vec![stop()])]).unwrap();
        let again = checked.all().iter().map(RuleFields::from).collect();
        assert_eq!(RuleSet::check(&owner(), again).unwrap(), checked);
    }

    #[test]
    fn every_number_has_a_limit() {
        let many = |count| (0..count).map(|_| rule(vec![], vec![stop()])).collect::<Vec<_>>();
        assert!(RuleSet::check(&owner(), many(RuleSet::MAX_RULES)).is_ok());
        assert_eq!(fields(many(RuleSet::MAX_RULES + 1)), ["rules"]);
        let conditions = |count| (0..count).map(|_| condition("size", "over", ConditionValue::Number(1))).collect();
        assert_eq!(fields(vec![rule(conditions(21), vec![stop()])]), ["rules[0].match.all"]);
        assert_eq!(fields(vec![rule(vec![], vec![])]), ["rules[0].actions"]);
        assert_eq!(fields(vec![rule(vec![], (0..6).map(|_| stop()).collect())]), ["rules[0].actions"]);
        let to = |n: usize| rule(vec![], vec![forward(&format!("u{n}@b.example"))]);
        assert!(RuleSet::check(&owner(), (0..10).map(to).collect()).is_ok());
        assert_eq!(fields((0..11).map(to).collect()), ["rules"]);
        let long = |_| rule((0..20).map(|_| condition("from", "is", text(&"x".repeat(500)))).collect(), vec![stop()]);
        assert_eq!(fields((0..7).map(long).collect()), ["rules"]);
    }
}
