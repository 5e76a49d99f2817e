//! Rules in a request.

use mailapi_model::{ActionFields, ConditionFields, ConditionValue, EmailAddress, RuleFields, Violations};

use crate::bounded_json;
use crate::json::object;
use crate::request_body::{AtLeastOne, Kind, Place, request_body};
use crate::shape::{RuleActionName, RuleComparisonName, RuleFieldName};

request_body! {
    /// The rules of a mailbox, instead of all former ones.
    pub(crate) struct RulesBody as "ReplaceRules" {
        /// Rules, in the order in which they apply: at most 100.
        rules: Vec<RuleBody>,
    }
    example {
        "rules": [{
            "name": "Newsletters", "enabled": true,
            "match": { "all": [{ "field": "header", "name": "List-Id", "op": "contains", "value": "news" }] },
            "actions": [{ "type": "folder", "folder": "Newsletters" }, { "type": "stop" }]
        }]
    }
}

request_body! {
    /// A rule.
    struct RuleBody as "Rule" {
        /// Name for people, at most 200 characters; empty by default.
        name: Option<String>,
        /// Whether the rule is applied; true by default.
        enabled: Option<bool>,
        /// Conditions that a message must meet. Without it, the rule applies to every message that is not junk.
        r#match: Option<MatchBody>,
        /// What happens to the message: 1 to 5 actions.
        actions: AtLeastOne<ActionBody>,
    }
}

request_body! {
    /// The conditions of a rule.
    struct MatchBody as "RuleMatch" {
        /// Conditions that must all hold: at most 20.
        all: Vec<ConditionBody>,
    }
}

request_body! {
    /// A condition of a rule.
    struct ConditionBody as "RuleCondition" {
        /// What is compared; `to` is To and Cc, `recipient` the address that the message was sent to.
        field: RuleFieldName,
        /// Name of the header field; required for `header`.
        name: Option<String>,
        /// Comparison: `contains` or `is` for texts, `over` for `size`, `is` for `verdict`.
        op: RuleComparisonName,
        /// Value to compare with, ignoring case: a text, the number of bytes for `size`, `spam`, `suspicious` or
        /// `dangerous` for `verdict`.
        value: String,
    }
}

request_body! {
    /// An action of a rule.
    struct ActionBody as "RuleAction" {
        /// Kind.
        r#type: RuleActionName,
        /// Folder of `folder`; it is created if it does not exist.
        folder: Option<String>,
        /// Flag of `flag`: `\Seen`, `\Flagged`, `\Answered`, or a keyword.
        flag: Option<String>,
        /// Address of `forward`, which gets a copy.
        to: Option<EmailAddress>,
        /// Subject of `vacation`; derived from that of the message by default.
        subject: Option<String>,
        /// Text of `reject` (in ASCII) or `vacation`.
        text: Option<String>,
        /// Days of `vacation` without a further answer to the same sender: 1 to 90, 7 by default.
        days: Option<u64>,
        /// Further addresses of the user, for `vacation`: at most 10. Mail to other addresses is not answered.
        addresses: Option<Vec<EmailAddress>>,
    }
}

impl From<RulesBody> for Vec<RuleFields> {
    fn from(body: RulesBody) -> Self {
        body.rules.into_iter().map(RuleFields::from).collect()
    }
}

impl From<RuleBody> for RuleFields {
    fn from(body: RuleBody) -> Self {
        let conditions = body.r#match.map(|all| all.all).unwrap_or_default();
        Self {
            name: body.name.unwrap_or_default(),
            enabled: body.enabled.unwrap_or(true),
            conditions: conditions.into_iter().map(ConditionFields::from).collect(),
            actions: body.actions.into_iter().map(ActionFields::from).collect(),
        }
    }
}

impl From<ConditionBody> for ConditionFields {
    fn from(ConditionBody { field, name, op, value }: ConditionBody) -> Self {
        let number = value.parse().ok().filter(|_| field == "size").map(ConditionValue::Number);
        let value = number.unwrap_or(ConditionValue::Text(value));
        Self { field, name, op, value }
    }
}

impl From<ActionBody> for ActionFields {
    fn from(body: ActionBody) -> Self {
        let ActionBody { r#type: kind, folder, flag, to, subject, text, days, addresses } = body;
        Self { kind, folder, flag, to, text, subject, days, addresses }
    }
}

/// Reads rules outside of a request.
///
/// # Errors
/// The violations; of the whole text if it is no JSON.
pub(crate) fn rules_in(json: &[u8]) -> Result<Vec<RuleFields>, Violations> {
    let value = bounded_json::read(json).map_err(|(error, _)| {
        Violations::of("", format!("must be JSON (line {}, column {})", error.line(), error.column()))
    })?;
    let mut violations = Violations::none();
    let read = RulesBody::read(object(value)?, &Place::root(None), &mut violations);
    violations.or(read).map(Vec::from)
}
