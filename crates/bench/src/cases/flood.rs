//! Effect of a flood of wrong passwords on other requests.

use std::time::Duration;

use super::http_clients;
use super::reading::Reading;
use crate::client::http::Connection;
use crate::load::{Client, Clients, Load};
use crate::mail_site::wrong_password;
use crate::measure::{figures, median};
use crate::outcome::{Outcome, same};
use crate::report::{Row, Unit};
use crate::scale::Scale;

/// Maximum factor by which other requests may become slower.
const MOST: f64 = 5.0;
/// Time between the start of the flood and the measurement.
const HEAD_START: Duration = Duration::from_millis(200);

/// Guesses passwords, each for another mailbox and from another client address, so that no lock-out ends the flood.
struct Guesser {
    connection: Connection,
}

impl Client for Guesser {
    async fn operate(&mut self, number: usize) -> Outcome {
        let (status, _) = self.connection.exchange(&wrong_password(number)).await?;
        same("the answer to a wrong password", status, 401)
    }
}

pub(super) async fn measure(reading: &Reading, scale: &Scale) -> Outcome<Vec<Row>> {
    let server = &reading.site.server;
    let requests = vec![reading.sent_request()].into();
    let mut others = http_clients(1, server.http, server.process(), &requests, 200).await?;
    let mut guessers = Vec::with_capacity(scale.flood);
    for _ in 0..scale.flood {
        guessers.push(Guesser { connection: reading.site.connect().await? });
    }
    let mut flood = Clients::new(guessers, server.process());

    others.run(scale.plan.warm_up).await?;
    let (mut idle, mut flooded, mut guesses, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.plan.rounds {
        let calm = others.run(scale.plan.window).await?;
        let meanwhile = async {
            tokio::time::sleep(HEAD_START).await;
            others.run(scale.plan.window).await
        };
        let (guessed, other) = tokio::try_join!(flood.run(scale.plan.window + HEAD_START * 2), meanwhile)?;
        ratios.push(other.quantile(0.99).as_secs_f64() / calm.quantile(0.99).as_secs_f64());
        idle.push(calm);
        flooded.push(other);
        guesses.push(guessed);
    }
    let (idle, flooded, guesses) = (figures(&idle), figures(&flooded), figures(&guesses));
    let case = format!(
        "GET /mail/sent while {} wrong passwords are in flight ({:.0}/s refused): p99 {:.2} ms, without the flood \
         {:.2} ms",
        scale.flood,
        guesses.rate,
        flooded.p99.as_secs_f64() * 1e3,
        idle.p99.as_secs_f64() * 1e3
    );
    Ok(vec![Row::at_most(&case, Unit::Times, median(ratios), MOST)])
}
