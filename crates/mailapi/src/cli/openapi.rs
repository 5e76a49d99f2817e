//! `mailapi openapi`.

use super::print;
use crate::failure::Outcome;

pub(super) fn run() -> Outcome {
    print(&mailapi_http::openapi_json())
}
