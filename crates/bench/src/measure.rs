//! Rounds: a case and its floor alternate, so that other load on the machine affects both.

use std::time::Duration;

use crate::load::{Load, Sample};
use crate::outcome::Outcome;

/// Number and length of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Number of measurements per side.
    pub(crate) rounds: usize,
    /// Length of a measurement.
    pub(crate) window: Duration,
    /// Length of the warm-up per side.
    pub(crate) warm_up: Duration,
}

/// Medians over the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    /// Operations per second.
    pub(crate) rate: f64,
    /// Median latency.
    pub(crate) p50: Duration,
    /// 99th percentile of the latency.
    pub(crate) p99: Duration,
    /// Processor time of the measured process per operation.
    pub(crate) cpu: Duration,
    /// The part of the time during which the load generator's thread was busy.
    pub(crate) client_busy: f64,
}

/// The figures of a case and its floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) ours: Figures,
    pub(crate) floor: Figures,
    /// The ratio of the rates, product to floor: the median over the rounds.
    pub(crate) ratio: f64,
}

/// Measures both sides in alternation.
pub(crate) async fn compare(plan: &Plan, ours: &mut impl Load, floor: &mut impl Load) -> Outcome<Comparison> {
    ours.run(plan.warm_up).await?;
    floor.run(plan.warm_up).await?;
    let (mut our_samples, mut floor_samples) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        floor_samples.push(floor.run(plan.window).await?);
        our_samples.push(ours.run(plan.window).await?);
    }
    let ratios = our_samples.iter().zip(&floor_samples).map(|(ours, floor)| ours.rate() / floor.rate());
    let ratio = median(ratios.collect());
    Ok(Comparison { ours: figures(&our_samples), floor: figures(&floor_samples), ratio })
}

/// The medians over several windows.
pub(crate) fn figures(samples: &[Sample]) -> Figures {
    let seconds = |of: fn(&Sample) -> Duration| {
        Duration::from_secs_f64(median(samples.iter().map(|sample| of(sample).as_secs_f64()).collect()))
    };
    Figures {
        rate: median(samples.iter().map(Sample::rate).collect()),
        p50: seconds(|sample| sample.quantile(0.5)),
        p99: seconds(|sample| sample.quantile(0.99)),
        cpu: seconds(Sample::cpu_per_operation),
        client_busy: median(samples.iter().map(Sample::client_busy).collect()),
    }
}

/// The median, for an even count the upper one; 0 without values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        assert_eq!(median(vec![5.0, 1.0, 4.0, 0.01, 4.5]), 4.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    struct Steady(Vec<u64>);

    impl Load for Steady {
        async fn run(&mut self, _: Duration) -> Outcome<Sample> {
            let rate = self.0.pop().unwrap_or(10);
            let latencies = vec![Duration::from_millis(1); usize::try_from(rate).unwrap()];
            Ok(Sample { latencies, elapsed: Duration::from_secs(1), ..Sample::default() })
        }
    }

    #[tokio::test]
    async fn ratios_are_taken_within_a_round() {
        let plan = Plan { rounds: 3, window: Duration::ZERO, warm_up: Duration::ZERO };
        // In the second round the machine is half as fast for both sides.
        let (mut ours, mut floor) = (Steady(vec![50, 25, 50, 1]), Steady(vec![100, 50, 100, 1]));
        let seen = compare(&plan, &mut ours, &mut floor).await.unwrap();
        assert_eq!((seen.ratio, seen.ours.rate, seen.floor.rate), (0.5, 50.0, 100.0));
    }
}
