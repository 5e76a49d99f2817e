//! Delivery status notifications that came back as mail: every backend reads them alike.

pub use mailapi_backend::mime::{ReturnedAction, ReturnedReport, returned_mail};
