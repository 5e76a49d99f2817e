//! Users, and the app passwords of one.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{
    AccountChange, AppPassword, AppPasswordId, EmailAddress, OneLine, Page, PasswordRule, Permission, Violations,
};
use mailapi_service::users::{CreateUser, UpdateUser, User, UserError, UserQuery};

use super::preferences::{self, SaveSentChoice};
use super::secret;
use super::sessions::{self, SessionRow};
use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::{self, Moment};

const PATH: &str = "/console/users";
const RIGHT: &str = "manage_users on the domain, and admins.";

/// Who may change app passwords and sessions.
pub(crate) const OWNERS: &str = "The user, manage_users on the domain, and admins.";

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage {
    frame: Frame,
    filters: Fields,
    rows: Vec<Row>,
    pager: Pager,
}

struct Row {
    email: String,
    path: String,
    name: String,
    state: &'static str,
    is_admin: bool,
    quota: String,
    is_limited: bool,
    quota_mib: String,
    used: String,
    messages: Option<u64>,
    created_at: Moment,
    last_login_at: Option<Moment>,
}

impl From<User> for Row {
    fn from(User { account, is_admin, quota }: User) -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            path: show::segment(account.email.as_str()),
            email: account.email.shown().to_owned(),
            name: account.name,
            state: if account.active { "active" } else { "disabled" },
            is_admin,
            quota: account.quota_bytes.map_or_else(|| "unlimited".to_owned(), show::bytes),
            is_limited: account.quota_bytes.is_some(),
            quota_mib: account.quota_bytes.map(|bytes| bytes.div_ceil(MIB).to_string()).unwrap_or_default(),
            used: quota.map_or_else(|| "unknown".to_owned(), |quota| show::bytes(quota.used_bytes)),
            messages: quota.map(|quota| quota.messages),
            created_at: account.created_at.into(),
            last_login_at: account.last_login_at.map(Moment),
        }
    }
}

/// `GET /users`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    session.may_open(Permission::ManageUsers)?;
    let mut violations = Violations::none();
    let wanted = UserQuery {
        domain: filters.parsed("domain", &mut violations),
        active: match filters.text("state") {
            "active" => Some(true),
            "disabled" => Some(false),
            _ => None,
        },
        q: filters.optional("q"),
    };
    let wanted = violations.or(Some(wanted))?;
    let page = filters.page();
    let listed = state.service().list_users(&session.caller, wanted, page).await?;
    let pager = Pager::new(PATH, &filters, page, listed.items.len(), listed.total);
    let rows = listed.items.into_iter().map(Row::from).collect();
    let frame = Frame::new(&session, "Users").call("GET /users", RIGHT).call("POST /users", RIGHT);
    render(&UsersPage { frame, filters, rows, pager })
}

/// `POST /users`.
pub(crate) async fn create(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    session.may_open(Permission::ManageUsers)?;
    let email: EmailAddress = fields.required("email")?;
    let path = format!("{PATH}/{}", show::segment(email.as_str()));
    let password = PasswordRule::parse("password", fields.exact("password").to_owned())?.into();
    let name = OneLine::parse("name", fields.text("name"))?;
    let new = CreateUser { email, password, name, quota_bytes: quota(&fields)? };
    let service = state.service().clone();
    change(async move { service.create_user(&session.caller, new).await }).await?;
    done(&path, Note::UserCreated)
}

/// The quota in bytes; the form has it in MiB, and nothing means no limit of its own.
fn quota(fields: &Fields) -> Result<Option<u64>, Violations> {
    let mut violations = Violations::none();
    let mib = fields.parsed::<u32>("quota_mib", &mut violations);
    violations.or(Some(mib.map(|mib| u64::from(mib) * 1024 * 1024)))
}

#[derive(Template)]
#[template(path = "user.html")]
struct UserPage {
    frame: Frame,
    row: Row,
    app_passwords: Vec<AppPasswordRow>,
    sessions: Vec<SessionRow>,
    choices: Vec<SaveSentChoice>,
    may_read: bool,
    may_rule: bool,
}

/// An app password in a list.
pub(crate) struct AppPasswordRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) created_at: Moment,
    pub(crate) last_used_at: Option<Moment>,
}

impl From<AppPassword> for AppPasswordRow {
    fn from(password: AppPassword) -> Self {
        Self {
            id: password.id.to_string(),
            name: password.name,
            created_at: password.created_at.into(),
            last_used_at: password.last_used_at.map(Moment),
        }
    }
}

/// `GET /users/{email}` and `GET /users/{email}/app-passwords`.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Path(email): Path<String>) -> Answer {
    let email = named(&email)?;
    let service = state.service();
    let user = service.get_user(&session.caller, &email).await?;
    let all = Page::new(Page::MAX_LIMIT, 0);
    let app_passwords = service.list_app_passwords(&session.caller, &email, all).await?;
    let frame = Frame::new(&session, email.shown())
        .call("GET /users/{email}", RIGHT)
        .call("PUT /users/{email}", RIGHT)
        .call("POST /users/{email}/enable, /disable, /reset-password", RIGHT)
        .call("DELETE /users/{email}, /users/{email}/purge", RIGHT)
        .call("POST /users/{email}/app-passwords", OWNERS)
        .call("GET /users/{email}/sessions", OWNERS)
        .call("DELETE /users/{email}/sessions/{id}", OWNERS)
        .call("PUT /users/{email}/preferences", OWNERS);
    render(&UserPage {
        frame,
        row: user.into(),
        app_passwords: app_passwords.items.into_iter().map(AppPasswordRow::from).collect(),
        sessions: sessions::rows(&state, &session, &email).await?,
        choices: preferences::choices(&state, &session, &email).await?,
        may_rule: service.may_manage_rules(&session.caller, &email).is_ok(),
        may_read: session.caller.grants.may_read(&email).is_ok(),
    })
}

/// Changes of one user.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(email): Path<String>,
    Form(fields): Form,
) -> Answer {
    let email = named(&email)?;
    let (service, path) = (state.service().clone(), format!("{PATH}/{}", show::segment(email.as_str())));
    let caller = session.caller.clone();
    match fields.text("act") {
        "update" => {
            let name = OneLine::parse("name", fields.text("name"))?;
            let record = AccountChange { name: Some(name), quota_bytes: Some(quota(&fields)?), save_sent: None };
            let update = UpdateUser { record, password: None };
            change(async move { service.update_user(&caller, &email, update).await }).await?;
            done(&path, Note::UserChanged)
        }
        "enable" => {
            change(async move { service.enable_user(&caller, &email).await }).await?;
            done(&path, Note::UserChanged)
        }
        "disable" => {
            change(async move { service.disable_user(&caller, &email).await }).await?;
            done(&path, Note::UserChanged)
        }
        "reset" => {
            session.proved(&state, &fields).await?;
            let made = change(async move { service.reset_password(&caller, &email, None).await }).await?;
            let frame = Frame::new(&session, "New password").call("POST /users/{email}/reset-password", RIGHT);
            secret::show(frame, "The password", made.map(|made| made.expose().clone()), path)
        }
        "purge" => {
            session.confirmed(&fields, email.as_str())?;
            session.proved(&state, &fields).await?;
            change(async move { service.purge_user(&caller, &email).await }).await?;
            done(&path, Note::UserPurged)
        }
        "delete" => {
            session.confirmed(&fields, email.as_str())?;
            session.proved(&state, &fields).await?;
            change(async move { service.delete_user(&caller, &email).await }).await?;
            done(PATH, Note::UserDeleted)
        }
        "save-sent" => preferences::save(&state, &session, email, &fields, &path).await,
        "end-session" => sessions::end(&state, &session, email, &fields, &path).await,
        _ => app_password(state, &session, email, &fields, path).await,
    }
}

/// `POST /users/{email}/app-passwords` and `DELETE /users/{email}/app-passwords/{id}`.
pub(crate) async fn app_password(
    state: HttpState,
    session: &Session,
    email: EmailAddress,
    fields: &Fields,
    back: String,
) -> Answer {
    let (service, caller) = (state.service().clone(), session.caller.clone());
    match fields.text("act") {
        "create-app-password" => {
            session.proved(&state, fields).await?;
            let name = fields.text("name").to_owned();
            let (_, value) = change(async move { service.create_app_password(&caller, &email, &name).await }).await?;
            let frame = Frame::new(session, "New app password").call("POST /users/{email}/app-passwords", RIGHT);
            secret::show(frame, "The app password", Some(value.expose().to_owned()), back)
        }
        "revoke-app-password" => {
            let id = fields.text("id").parse().map(AppPasswordId).map_err(|_| UserError::AppPasswordNotFound)?;
            change(async move { service.revoke_app_password(&caller, &email, id).await }).await?;
            done(&back, Note::AppPasswordRevoked)
        }
        _ => Err(Failure::not_found()),
    }
}

fn named(text: &str) -> Result<EmailAddress, Failure> {
    text.parse().map_err(|_| UserError::NotFound.into())
}
