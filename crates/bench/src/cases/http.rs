//! The HTTP floor, compared with the ceiling of the load generator: a socket without a parser. The higher the
//! ceiling, the less the load generator influences the figures.

use std::sync::Arc;

use super::http_clients;
use crate::client::http::Request;
use crate::floor;
use crate::floor::process::{Floor, Kind};
use crate::measure::compare;
use crate::outcome::Outcome;
use crate::report::{Goal, Row};
use crate::scale::Scale;

pub(super) async fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let (http, wire) = (Floor::start(Kind::Http)?, Floor::start(Kind::Wire)?);
    let requests: Arc<[Request]> = vec![floor::http::request(2)].into();
    let mut rows = Vec::new();
    for &concurrency in scale.concurrency {
        let mut ours = http_clients(concurrency, http.address, http.process(), &requests, 200).await?;
        let mut ceiling = http_clients(concurrency, wire.address, wire.process(), &requests, 200).await?;
        let comparison = compare(&scale.plan, &mut ours, &mut ceiling).await?;
        let case = "HTTP floor, 2 bytes, beside the load generator's ceiling".to_owned();
        rows.push(Row::Compared { case, concurrency, comparison, goal: Goal::default() });
    }
    Ok(rows)
}
