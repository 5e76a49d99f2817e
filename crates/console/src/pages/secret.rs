//! A secret that is shown once.

use askama::Template;

use crate::answer::{Answer, render};
use crate::frame::Frame;

#[derive(Template)]
#[template(path = "secret.html")]
struct SecretPage {
    frame: Frame,
    what: &'static str,
    secret: Option<String>,
    back: String,
}

/// Shows the secret and a link back.
pub(crate) fn show(frame: Frame, what: &'static str, secret: Option<String>, back: String) -> Answer {
    render(&SecretPage { frame, what, secret, back })
}
