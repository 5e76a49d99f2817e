//! The form of one rule: a row for each condition, and a field for each kind of action.

use mailapi_model::{ActionFields, ConditionFields, ConditionValue, RuleFields, RuleSet, Violations};

use crate::fields::Fields;

/// Rows for conditions that a form adds to those of the rule.
const ROOM: usize = 2;

/// What a condition compares and how, with its name in the form. A verdict is part of its comparison.
pub(crate) const TESTS: [(&str, &str); 14] = [
    ("from contains", "From contains"),
    ("from is", "From is the address"),
    ("to contains", "To or Cc contains"),
    ("to is", "To or Cc is the address"),
    ("recipient contains", "Address it was sent to contains"),
    ("recipient is", "Address it was sent to is"),
    ("subject contains", "Subject contains"),
    ("subject is", "Subject is"),
    ("header contains", "Header field contains"),
    ("header is", "Header field is"),
    ("size over", "Size in bytes is over"),
    ("verdict is spam", "Is junk"),
    ("verdict is suspicious", "Is suspicious or dangerous"),
    ("verdict is dangerous", "Is dangerous"),
];

/// A rule as its form shows it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RuleForm {
    pub(crate) name: String,
    pub(crate) enabled: bool,
    pub(crate) conditions: Vec<ConditionRow>,
    pub(crate) folder: String,
    /// Flags, separated by spaces.
    pub(crate) flags: String,
    /// Addresses, one a line.
    pub(crate) forward: String,
    pub(crate) reject: String,
    pub(crate) vacation: VacationForm,
    pub(crate) stop: bool,
}

/// A condition: one of [`TESTS`], or none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ConditionRow {
    pub(crate) test: String,
    pub(crate) header: String,
    pub(crate) value: String,
}

/// An automatic answer; none without a text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct VacationForm {
    pub(crate) text: String,
    pub(crate) subject: String,
    pub(crate) days: String,
    /// Addresses, one a line.
    pub(crate) addresses: String,
}

impl RuleForm {
    /// The form of a new rule.
    pub(crate) fn empty() -> Self {
        Self { enabled: true, ..Self::default() }.with_room()
    }

    /// Whether the form shows all of a rule: it has room for one folder, one refusal and one answer.
    pub(crate) fn shows(rule: &RuleFields) -> bool {
        let count = |kind: &str| rule.actions.iter().filter(|action| action.kind == kind).count();
        ["folder", "reject", "vacation"].iter().all(|kind| count(kind) <= 1)
    }

    /// The form of a rule.
    pub(crate) fn of(rule: &RuleFields) -> Self {
        let of = |kind: &'static str| rule.actions.iter().filter(move |action| action.kind == kind);
        let texts = |kind| of(kind).filter_map(|action| action.text.clone()).collect::<String>();
        let vacation = of("vacation").next().cloned().unwrap_or_default();
        Self {
            name: rule.name.clone(),
            enabled: rule.enabled,
            conditions: rule.conditions.iter().map(ConditionRow::from).collect(),
            folder: of("folder").filter_map(|action| action.folder.clone()).collect(),
            flags: joined(of("flag").filter_map(|action| action.flag.clone()), " "),
            forward: joined(of("forward").filter_map(|action| action.to.as_ref()).map(shown), "\n"),
            reject: texts("reject"),
            vacation: VacationForm {
                text: texts("vacation"),
                subject: vacation.subject.unwrap_or_default(),
                days: vacation.days.map(|days| days.to_string()).unwrap_or_default(),
                addresses: joined(vacation.addresses.unwrap_or_default().iter().map(shown), "\n"),
            },
            stop: of("stop").next().is_some(),
        }
        .with_room()
    }

    /// The form as it was typed.
    pub(crate) fn typed(fields: &Fields) -> Self {
        let text = |name: &str| fields.text(name).to_owned();
        let row = |place: usize| ConditionRow {
            test: text(&format!("test-{place}")),
            header: text(&format!("header-{place}")),
            value: text(&format!("value-{place}")),
        };
        let rows = (0..RuleSet::MAX_CONDITIONS).map(row).filter(|row| *row != ConditionRow::default());
        Self {
            name: text("name"),
            enabled: !fields.text("enabled").is_empty(),
            conditions: rows.collect(),
            folder: text("folder"),
            flags: text("flags"),
            forward: text("forward"),
            reject: text("reject"),
            vacation: VacationForm {
                text: fields.exact("vacation").replace("\r\n", "\n"),
                subject: text("vacation_subject"),
                days: text("vacation_days"),
                addresses: text("vacation_addresses"),
            },
            stop: !fields.text("stop").is_empty(),
        }
    }

    /// Adds empty rows for conditions.
    pub(crate) fn with_room(mut self) -> Self {
        let rows = (self.conditions.len() + ROOM).min(RuleSet::MAX_CONDITIONS);
        self.conditions.resize_with(rows, ConditionRow::default);
        self
    }

    /// Whether a form may have more rows.
    pub(crate) fn has_room(&self) -> bool {
        self.conditions.len() < RuleSet::MAX_CONDITIONS
    }

    /// The rule, for `service` to check.
    pub(crate) fn into_rule(self) -> Result<RuleFields, Violations> {
        let mut violations = Violations::none();
        let mut actions = Vec::new();
        let of = |kind: &str| ActionFields { kind: kind.to_owned(), ..ActionFields::default() };
        if !self.folder.is_empty() {
            actions.push(ActionFields { folder: Some(self.folder), ..of("folder") });
        }
        actions.extend(words(&self.flags).map(|flag| ActionFields { flag: Some(flag.to_owned()), ..of("flag") }));
        for word in words(&self.forward) {
            let to = violations.check("forward", word.parse());
            actions.push(ActionFields { to, ..of("forward") });
        }
        if !self.reject.is_empty() {
            actions.push(ActionFields { text: Some(self.reject), ..of("reject") });
        }
        actions.extend(self.vacation.into_action(&mut violations));
        if self.stop {
            actions.push(of("stop"));
        }
        let conditions = self.conditions.into_iter().filter_map(|row| row.into_condition(&mut violations)).collect();
        violations.or(Some(RuleFields { name: self.name, enabled: self.enabled, conditions, actions }))
    }
}

impl From<&ConditionFields> for ConditionRow {
    fn from(condition: &ConditionFields) -> Self {
        let ConditionFields { field, name, op, value } = condition;
        let (test, value) = match field.as_str() {
            "verdict" => (format!("{field} {op} {value}"), String::new()),
            _ => (format!("{field} {op}"), value.to_string()),
        };
        Self { test, header: name.clone().unwrap_or_default(), value }
    }
}

impl ConditionRow {
    /// Whether the condition is this one of [`TESTS`].
    pub(crate) fn is(&self, test: &str) -> bool {
        self.test == test
    }

    fn into_condition(self, violations: &mut Violations) -> Option<ConditionFields> {
        if self.test.is_empty() {
            if self != Self::default() {
                violations.add("condition", "a value without a comparison; choose one, or delete the value");
            }
            return None;
        }
        let mut words = self.test.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (field, op, verdict) = (next(), next(), next());
        let value = match field {
            "size" => violations.check("size", self.value.parse()).map(ConditionValue::Number)?,
            "verdict" => ConditionValue::Text(verdict.to_owned()),
            _ => ConditionValue::Text(self.value),
        };
        let name = Some(self.header).filter(|name| field == "header" && !name.is_empty());
        Some(ConditionFields { field: field.to_owned(), name, op: op.to_owned(), value })
    }
}

impl VacationForm {
    fn into_action(self, violations: &mut Violations) -> Option<ActionFields> {
        if self.text.trim().is_empty() {
            if self != (Self { text: self.text.clone(), ..Self::default() }) {
                violations.add("vacation", "has no text");
            }
            return None;
        }
        let days = (!self.days.is_empty()).then(|| violations.check("vacation_days", self.days.parse())).flatten();
        let addresses = words(&self.addresses).map(|word| violations.check("vacation_addresses", word.parse()));
        Some(ActionFields {
            kind: "vacation".to_owned(),
            addresses: Some(addresses.flatten().collect()),
            text: Some(self.text),
            subject: Some(self.subject).filter(|subject| !subject.is_empty()),
            days,
            ..ActionFields::default()
        })
    }
}

/// An action in words.
pub(crate) fn in_words(action: &ActionFields) -> String {
    let text = action.text.as_deref().unwrap_or_default();
    match action.kind.as_str() {
        "folder" => format!("file it in {}", action.folder.as_deref().unwrap_or_default()),
        "flag" => format!("mark it {}", action.flag.as_deref().unwrap_or_default()),
        "forward" => format!("send a copy to {}", action.to.as_ref().map(shown).unwrap_or_default()),
        "reject" => format!("refuse it: “{text}”"),
        "vacation" => format!("answer “{}”, once in {} days", first_line(text), action.days.unwrap_or_default()),
        _ => "stop here".to_owned(),
    }
}

fn first_line(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(MOST).collect();
    if short.len() < text.trim().len() { format!("{short}…") } else { short }
}

fn shown(address: &mailapi_model::EmailAddress) -> String {
    address.shown().to_owned()
}

fn joined(texts: impl Iterator<Item = String>, separator: &str) -> String {
    texts.collect::<Vec<_>>().join(separator)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(form: &RuleForm) -> Fields {
        let flag = |is_set: bool| if is_set { "yes" } else { "" }.to_owned();
        let vacation = form.vacation.clone();
        let mut fields = vec![
            ("name".to_owned(), form.name.clone()),
            ("enabled".to_owned(), flag(form.enabled)),
            ("folder".to_owned(), form.folder.clone()),
            ("flags".to_owned(), form.flags.clone()),
            ("forward".to_owned(), form.forward.clone()),
            ("reject".to_owned(), form.reject.clone()),
            ("vacation".to_owned(), vacation.text),
            ("vacation_subject".to_owned(), vacation.subject),
            ("vacation_days".to_owned(), vacation.days),
            ("vacation_addresses".to_owned(), vacation.addresses),
            ("stop".to_owned(), flag(form.stop)),
        ];
        for (place, row) in form.conditions.iter().enumerate() {
            fields.push((format!("test-{place}"), row.test.clone()));
            fields.push((format!("header-{place}"), row.header.clone()));
            fields.push((format!("value-{place}"), row.value.clone()));
        }
        Fields::of(fields)
    }

    #[test]
    fn a_rule_that_is_shown_and_sent_is_the_same() {
        let condition = |field: &str, op: &str, value| ConditionFields {
            field: field.to_owned(),
            name: (field == "header").then(|| "List-Id".to_owned()),
            op: op.to_owned(),
            value,
        };
        let text = |text: &str| ConditionValue::Text(text.to_owned());
        let of = |kind: &str| ActionFields { kind: kind.to_owned(), ..ActionFields::default() };
        let rule = RuleFields {
            name: "Lists".to_owned(),
            enabled: true,
            conditions: vec![
                condition("from", "is", text("a@b.example")),
                condition("header", "contains", text("news")),
                condition("size", "over", ConditionValue::Number(1000)),
                condition("verdict", "is", text("spam")),
                condition("verdict", "is", text("suspicious")),
                condition("verdict", "is", text("dangerous")),
            ],
            actions: vec![
                ActionFields { folder: Some("Lists".to_owned()), ..of("folder") },
                ActionFields { flag: Some("\\Seen".to_owned()), ..of("flag") },
                ActionFields { flag: Some("$Label1".to_owned()), ..of("flag") },
                of("stop"),
            ],
        };
        let typed = RuleForm::typed(&encoded(&RuleForm::of(&rule))).into_rule().unwrap();
        assert_eq!(format!("{typed:?}"), format!("{rule:?}"));
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        let refused = |form: RuleForm| form.into_rule().unwrap_err().all()[0].field.clone();
        let row = ConditionRow { value: "x".to_owned(), ..ConditionRow::default() };
        assert_eq!(refused(RuleForm { conditions: vec![row], ..RuleForm::default() }), "condition");
        let vacation = VacationForm { days: "3".to_owned(), ..VacationForm::default() };
        assert_eq!(refused(RuleForm { vacation, ..RuleForm::default() }), "vacation");
        assert_eq!(refused(RuleForm { forward: "no-address".to_owned(), ..RuleForm::default() }), "forward");
    }

    proptest! {
        #[test]
        fn any_form_is_a_rule_or_refused(bytes: Vec<u8>, test in ".{0,12}", value: String) {
            let row = format!("&test-0={test}&value-0={value}");
            let _ = RuleForm::typed(&Fields::parse(&[bytes.as_slice(), row.as_bytes()].concat())).into_rule();
        }
    }
}
