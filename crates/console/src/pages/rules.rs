//! The rules of a mailbox.
//!
//! The API replaces all rules at once, so each change here reads them, changes one, and writes all. A form names the
//! rules that it was made for; if they were changed meanwhile, it is refused.

use std::hash::{DefaultHasher, Hash, Hasher};

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{ConditionFields, EmailAddress, Rule, RuleFields, RuleSet, Violations};
use mailapi_service::users::UserError;

use super::rule_form::{RuleForm, TESTS};
use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form};
use crate::frame::Frame;
use crate::note::Note;
use crate::session::Session;
use crate::show;

const PATH: &str = "/console/rules";
const RIGHT: &str = "The user, and admins.";

#[derive(Template)]
#[template(path = "rules.html")]
struct RulesPage {
    frame: Frame,
    path: String,
    was: String,
    rows: Vec<Row>,
}

/// A rule in words.
struct Row {
    name: String,
    enabled: bool,
    conditions: Vec<String>,
    actions: Vec<String>,
    has_form: bool,
}

impl From<&Rule> for Row {
    fn from(rule: &Rule) -> Self {
        let fields = RuleFields::from(rule);
        Self {
            name: if rule.name.is_empty() { "(no name)".to_owned() } else { rule.name.clone() },
            enabled: rule.enabled,
            conditions: fields.conditions.iter().map(in_words).collect(),
            has_form: RuleForm::shows(&fields),
            actions: fields.actions.iter().map(super::rule_form::in_words).collect(),
        }
    }
}

fn in_words(condition: &ConditionFields) -> String {
    let ConditionFields { field, name, op, value } = condition;
    match field.as_str() {
        "size" => format!("it has more than {value} bytes"),
        "verdict" => match value.to_string().as_str() {
            "spam" => "it is junk".to_owned(),
            "suspicious" => "it is suspicious or dangerous".to_owned(),
            verdict => format!("it is {verdict}"),
        },
        "header" => format!("{} {op} “{value}”", name.as_deref().unwrap_or_default()),
        _ => format!("{field} {op} “{value}”"),
    }
}

/// The rules of the caller's own mailbox.
pub(crate) async fn own(State(state): State<HttpState>, session: Session) -> Answer {
    let email = session.caller.grants.mailbox().cloned().ok_or_else(Failure::not_found)?;
    list_of(&state, &session, &email).await
}

/// `GET /users/{email}/rules`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Path(email): Path<String>) -> Answer {
    list_of(&state, &session, &named(&email)?).await
}

async fn list_of(state: &HttpState, session: &Session, email: &EmailAddress) -> Answer {
    let rules = state.service().get_rules(&session.caller, email).await?;
    let frame = frame(session, format!("Rules of {}", email.shown()));
    let rows = rules.all().iter().map(Row::from).collect();
    render(&RulesPage { frame, path: path_of(email), was: version(&rules), rows })
}

/// Changes of the list: `up`, `down`, `enable`, `disable`, `delete`.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(email): Path<String>,
    Form(fields): Form,
) -> Answer {
    let email = named(&email)?;
    let mut rules = unchanged(&state, &session, &email, &fields).await?;
    let place = place_in(fields.text("rule"), rules.len())?;
    let note = match fields.text("act") {
        "up" if place > 0 => {
            rules.swap(place, place - 1);
            Note::RulesOrdered
        }
        "down" if place + 1 < rules.len() => {
            rules.swap(place, place + 1);
            Note::RulesOrdered
        }
        "enable" | "disable" => {
            rules[place].enabled = fields.text("act") == "enable";
            Note::RuleChanged
        }
        "delete" => {
            rules.remove(place);
            Note::RuleDeleted
        }
        _ => return Err(Failure::not_found()),
    };
    replace(&state, &session, email, rules, note).await
}

#[derive(Template)]
#[template(path = "rule.html")]
struct RulePage {
    frame: Frame,
    list: String,
    was: String,
    form: RuleForm,
    tests: &'static [(&'static str, &'static str)],
}

/// The form of a rule, or of a new one.
pub(crate) async fn edit(
    State(state): State<HttpState>,
    session: Session,
    Path((email, place)): Path<(String, String)>,
) -> Answer {
    let email = named(&email)?;
    let rules = state.service().get_rules(&session.caller, &email).await?;
    let (title, form) = match place.as_str() {
        "new" => ("New rule", RuleForm::empty()),
        place => {
            let rule = RuleFields::from(&rules.all()[place_in(place, rules.all().len())?]);
            if !RuleForm::shows(&rule) {
                return Err(Failure::not_found());
            }
            ("Rule", RuleForm::of(&rule))
        }
    };
    render(&RulePage {
        frame: frame(&session, title),
        list: path_of(&email),
        was: version(&rules),
        form,
        tests: &TESTS,
    })
}

/// Saves a rule, or shows its form again with room for more conditions.
pub(crate) async fn save(
    State(state): State<HttpState>,
    session: Session,
    Path((email, place)): Path<(String, String)>,
    Form(fields): Form,
) -> Answer {
    let email = named(&email)?;
    if fields.text("act") == "more" {
        state.service().may_manage_rules(&session.caller, &email)?;
        let (was, form) = (fields.text("was").to_owned(), RuleForm::typed(&fields).with_room());
        return render(&RulePage { frame: frame(&session, "Rule"), list: path_of(&email), was, form, tests: &TESTS });
    }
    let mut rules = unchanged(&state, &session, &email, &fields).await?;
    let before = forwards(&rules);
    let rule = RuleForm::typed(&fields).into_rule()?;
    let note = if place == "new" {
        rules.push(rule);
        Note::RuleCreated
    } else {
        let place = place_in(&place, rules.len())?;
        rules[place] = rule;
        Note::RuleChanged
    };
    // A rule outlives the session, and a new address would get all mail to come.
    if forwards(&rules).iter().any(|address| !before.contains(address)) {
        session.proved(&state, &fields).await?;
    }
    replace(&state, &session, email, rules, note).await
}

fn forwards(rules: &[RuleFields]) -> Vec<EmailAddress> {
    rules.iter().flat_map(|rule| &rule.actions).filter_map(|action| action.to.clone()).collect()
}

/// `PUT /users/{email}/rules`.
async fn replace(
    state: &HttpState,
    session: &Session,
    email: EmailAddress,
    rules: Vec<RuleFields>,
    note: Note,
) -> Answer {
    let (service, caller, path) = (state.service().clone(), session.caller.clone(), path_of(&email));
    change(async move { service.replace_rules(&caller, &email, rules).await }).await?;
    done(&path, note)
}

/// The rules, if they are those for which the form was made.
async fn unchanged(
    state: &HttpState,
    session: &Session,
    email: &EmailAddress,
    fields: &Fields,
) -> Result<Vec<RuleFields>, Failure> {
    let rules = state.service().get_rules(&session.caller, email).await?;
    if fields.text("was") != version(&rules) {
        return Err(Violations::of("rules", "were changed meanwhile; load the page again").into());
    }
    Ok(rules.all().iter().map(RuleFields::from).collect())
}

/// Distinguishes the rules from former ones.
fn version(rules: &RuleSet) -> String {
    let mut hasher = DefaultHasher::new();
    rules.to_text().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn frame(session: &Session, title: impl Into<String>) -> Frame {
    Frame::new(session, title).call("GET /users/{email}/rules", RIGHT).call("PUT /users/{email}/rules", RIGHT)
}

fn path_of(email: &EmailAddress) -> String {
    format!("{PATH}/{}", show::segment(email.as_str()))
}

fn place_in(text: &str, count: usize) -> Result<usize, Failure> {
    text.parse().ok().filter(|place| *place < count).ok_or_else(Failure::not_found)
}

fn named(text: &str) -> Result<EmailAddress, Failure> {
    text.parse().map_err(|_| UserError::NotFound.into())
}
