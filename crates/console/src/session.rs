//! Who is logged in.
//!
//! The cookie has the value of a session of the API, or of an API token that was typed in. So sessions end as in the
//! API: by logging out, by a new password, after inactivity, and when a token is revoked.

use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, HeaderMap, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use mailapi_http::{Authenticated, HttpState, TokenUse};
use mailapi_model::{Denied, Permission, Secret, TokenValue, Violations};
use mailapi_service::Caller;

use crate::failure::{Again, Failure};
use crate::fields::Fields;
use crate::note::Note;

/// With this prefix, browsers accept the cookie only if it is `Secure`, for every path, and for this host alone.
const COOKIE_NAME: &str = "__Host-mailapi";

/// A request of a part of a page that refreshes itself.
const REFRESH: HeaderName = HeaderName::from_static("mailapi-refresh");

/// A caller with a valid token.
pub(crate) struct Session {
    /// The caller.
    pub(crate) caller: Caller,
    /// The path of the page.
    pub(crate) path: String,
    /// What the last change did.
    pub(crate) note: Option<Note>,
}

impl Session {
    /// The field of [`Session::proved`].
    const PROOF: &str = "proof";

    /// Opens a list that admins see, and callers who hold the permission on a domain.
    pub(crate) fn may_open(&self, permission: Permission) -> Result<(), Denied> {
        let grants = &self.caller.grants;
        if grants.domains_with(permission).next().is_some() { Ok(()) } else { grants.admin().map(|_| ()) }
    }

    /// Checks the password of the session, or the API token, that was typed in again for a dangerous change. The page of
    /// a wrong one has the form again, since a browser may have lost what was typed.
    pub(crate) async fn proved(&self, state: &HttpState, fields: &Fields) -> Result<(), Failure> {
        let secret = fields.text(Self::PROOF);
        if secret.is_empty() {
            return Err(Violations::of(Self::PROOF, "is required").into());
        }
        // A password may begin or end with a space; a token has none.
        let secret = if self.has_password() { fields.exact(Self::PROOF) } else { secret };
        let confirmed = state.service().confirm(&self.caller, &Secret::new(secret.to_owned())).await;
        confirmed.map_err(|error| {
            let (label, action) = (self.proof_label(), self.path.clone());
            Failure::Proof(error.into(), Box::new(Again { label, action, fields: fields.others(Self::PROOF) }))
        })
    }

    /// What proves who the caller is.
    pub(crate) fn proof_label(&self) -> &'static str {
        if self.has_password() { "Your password" } else { "Your API token" }
    }

    /// Whether the caller has logged in with a password, and not with an API token.
    pub(crate) fn has_password(&self) -> bool {
        self.caller.token.as_ref().is_some_and(|token| token.is_session)
    }

    /// Checks that the caller typed the name of what a dangerous change is about.
    pub(crate) fn confirmed(&self, fields: &Fields, name: &str) -> Result<(), Violations> {
        let is_same = fields.text("confirm").eq_ignore_ascii_case(name);
        if is_same { Ok(()) } else { Err(Violations::of("confirm", format!("must be {name}"))) }
    }
}

impl FromRequestParts<HttpState> for Session {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Failure> {
        let note = note_of(parts);
        let Some(token) = token_of(&parts.headers) else { return Err(log_in_first(parts, note)) };
        let token_use = if parts.headers.contains_key(REFRESH) { TokenUse::Refresh } else { TokenUse::Act };
        match Authenticated::by_token(parts, state, &token, token_use).await {
            // The cookie is here, so that note does not apply.
            Ok(caller) => {
                let note = note.filter(|note| *note != Note::NoCookie);
                Ok(Self { caller, path: parts.uri.path().to_owned(), note })
            }
            Err(error) if error.status().as_u16() == 401 => {
                let note = if parts.method == Method::GET { Note::Ended } else { Note::EndedUnsent };
                Err(log_in_first(parts, Some(note)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn note_of(parts: &Parts) -> Option<Note> {
    let query = parts.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == Note::PARAMETER)
        .and_then(|(_, value)| Note::named(&value))
}

/// The login page, which returns to this page afterwards.
fn log_in_first(parts: &Parts, note: Option<Note>) -> Failure {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let page = parts.uri.path_and_query().map_or("/console", |path| path.as_str());
    // After the login, a form cannot be sent again.
    if parts.method == Method::GET && page != "/console" && note.is_none() {
        query.append_pair("next", page);
    }
    if let Some(note) = note {
        query.append_pair(Note::PARAMETER, note.as_str());
    }
    let query = query.finish();
    let separator = if query.is_empty() { "" } else { "?" };
    Failure::LogIn(format!("/console/login{separator}{query}"))
}

/// The token in the cookie.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<TokenValue> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let (_, value) = cookies.find(|(name, value)| *name == COOKIE_NAME && !value.is_empty())?;
    Some(TokenValue::from_caller(value))
}

/// The header that stores the token until the browser is closed, at most for this many seconds.
pub(crate) fn keep(token: &TokenValue, seconds: u64) -> (HeaderName, HeaderValue) {
    cookie(token.expose(), seconds)
}

/// The header that deletes the token.
pub(crate) fn forget() -> (HeaderName, HeaderValue) {
    cookie("", 0)
}

fn cookie(value: &str, seconds: u64) -> (HeaderName, HeaderValue) {
    let text = format!("{COOKIE_NAME}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    (SET_COOKIE, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(lines: &[&'static str]) -> Option<String> {
        let pairs = lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line)));
        token_of(&pairs.collect()).map(|token| token.expose().to_owned())
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        assert_eq!(token(&["a=b; __Host-mailapi=maps_1; c=d"]).as_deref(), Some("maps_1"));
        assert_eq!(token(&["a=b", "__Host-mailapi=maps_2"]).as_deref(), Some("maps_2"));
        for none in ["", "__Host-mailapi=", "mailapi=maps_1", "x__Host-mailapi=maps_1", ";;=;"] {
            assert_eq!(token(&[none]), None);
        }
    }

    #[test]
    fn the_cookie_is_for_this_host_and_for_no_script() {
        let (_, value) = keep(&TokenValue::from_caller("maps_1"), 60);
        assert_eq!(value, "__Host-mailapi=maps_1; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Strict");
        assert!(value.is_sensitive());
        assert!(forget().1.to_str().unwrap().starts_with("__Host-mailapi=; Path=/; Max-Age=0;"));
    }
}
