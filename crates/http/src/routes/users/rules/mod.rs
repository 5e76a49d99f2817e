//! Rules of a mailbox.

pub(crate) mod body;
pub(super) mod get;
pub(super) mod replace;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{ActionFields, ConditionFields, EmailAddress, Rule, RuleFields, RuleSet};
use mailapi_service::Caller;
use serde::Serialize;
use utoipa::ToSchema;

use super::user_in;
use crate::caller;
use crate::error::ApiError;
use crate::path::PathParameters;
use crate::shape::{RuleActionName, RuleComparisonName, RuleFieldName};
use crate::state::HttpState;

/// A caller who may manage the rules of the user in the path. The body is read only after this check.
pub(crate) struct RuleManager {
    caller: Caller,
    email: EmailAddress,
}

impl FromRequestParts<HttpState> for RuleManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage_rules(&caller, &email)?;
        Ok(Self { caller, email })
    }
}

/// The rules of a mailbox, without the user.
#[derive(Serialize)]
pub(crate) struct RulesShown {
    rules: Vec<RuleShown>,
}

impl From<&RuleSet> for RulesShown {
    fn from(rules: &RuleSet) -> Self {
        Self { rules: rules.all().iter().map(RuleShown::from).collect() }
    }
}

/// The rules of a mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = MailboxRules, example = json!({
    "success": true, "email": "alice@example.test",
    "rules": [{
        "name": "Newsletters", "enabled": true,
        "match": { "all": [{ "field": "header", "name": "List-Id", "op": "contains", "value": "news" }] },
        "actions": [{ "type": "folder", "folder": "Newsletters" }, { "type": "stop" }]
    }]
}))]
pub(crate) struct RulesFound {
    /// Always true.
    success: bool,
    /// Address of the user.
    email: String,
    /// The rules, in the order in which they apply.
    rules: Vec<RuleShown>,
}

impl RulesFound {
    fn new(email: &EmailAddress, rules: &RuleSet) -> Self {
        Self { success: true, email: email.shown().to_owned(), rules: RulesShown::from(rules).rules }
    }
}

/// A rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleInfo)]
struct RuleShown {
    /// Name for people.
    name: String,
    /// Whether the rule is applied.
    enabled: bool,
    /// Conditions that a message must meet.
    r#match: MatchShown,
    /// What happens to the message.
    actions: Vec<ActionShown>,
}

/// The conditions of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleMatchInfo)]
struct MatchShown {
    /// Conditions that all hold.
    all: Vec<ConditionShown>,
}

/// A condition of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleConditionInfo)]
struct ConditionShown {
    /// What is compared; `to` is To and Cc, `recipient` the address that the message was sent to.
    #[schema(value_type = RuleFieldName)]
    field: String,
    /// Name of the header field; only for `header`.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Comparison.
    #[schema(value_type = RuleComparisonName)]
    op: String,
    /// Value to compare with: a text, the number of bytes for `size`, `spam`,
    /// `suspicious` or `dangerous` for `verdict`.
    value: String,
}

/// An action of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleActionInfo)]
struct ActionShown {
    /// Kind.
    #[schema(value_type = RuleActionName)]
    r#type: String,
    /// Folder of `folder`.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Flag or keyword of `flag`.
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
    /// Address of `forward`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Subject of `vacation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// Text of `reject` and `vacation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Days of `vacation` without a further answer to the same sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    days: Option<u32>,
    /// Further addresses of the user, for `vacation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<String>>,
}

impl From<&Rule> for RuleShown {
    fn from(rule: &Rule) -> Self {
        let RuleFields { name, enabled, conditions, actions } = rule.into();
        let all = conditions.into_iter().map(ConditionShown::from).collect();
        Self {
            name,
            enabled,
            r#match: MatchShown { all },
            actions: actions.into_iter().map(ActionShown::from).collect(),
        }
    }
}

impl From<ConditionFields> for ConditionShown {
    fn from(ConditionFields { field, name, op, value }: ConditionFields) -> Self {
        Self { field, name, op, value: value.to_string() }
    }
}

impl From<ActionFields> for ActionShown {
    fn from(ActionFields { kind, folder, flag, to, text, subject, days, addresses }: ActionFields) -> Self {
        let shown = |address: EmailAddress| address.shown().to_owned();
        let (to, addresses) = (to.map(shown), addresses.map(|all| all.into_iter().map(shown).collect()));
        let days = days.map(|days| u32::try_from(days).unwrap_or(u32::MAX));
        Self { r#type: kind, folder, flag, to, subject, text, days, addresses }
    }
}
