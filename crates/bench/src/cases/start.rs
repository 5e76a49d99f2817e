//! Start time on the database with the full INBOX, and memory at rest.

use std::time::Duration;

use super::reading::Reading;
use crate::measure::median;
use crate::outcome::Outcome;
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;

const MOST_MEMORY: f64 = 30.0 * 1024.0 * 1024.0;
const LONGEST_START: Duration = Duration::from_millis(100);

pub(super) async fn measure(product: &Product, mut reading: Reading, scale: &Scale) -> Outcome<(Reading, Vec<Row>)> {
    let mut starts = Vec::new();
    for _ in 0..scale.plan.rounds {
        reading = reading.restart(product).await?;
        starts.push(reading.site.server.start_took.as_secs_f64());
    }
    reading.site.server.settle().await?;
    let resident = reading.site.server.process().resident()?;
    let rows = vec![
        Row::at_most(
            "start on an existing database, until everything listens",
            Unit::Seconds,
            median(starts),
            LONGEST_START.as_secs_f64(),
        ),
        Row::at_most("memory at rest after a start", Unit::Blob, resident as f64, MOST_MEMORY),
    ];
    Ok((reading, rows))
}
