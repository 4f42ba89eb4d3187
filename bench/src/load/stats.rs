//! Numbers that describe many numbers.

use serde::Serialize;

/// How values are spread. All zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The middle one.
    pub p50: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of values in any order.
    pub fn from_values(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(&max) = values.last() else {
            return Self::default();
        };
        Self {
            count: values.len(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: quantile(&values, 0.5),
            p99: quantile(&values, 0.99),
            max,
        }
    }
}

/// The value below which a share of `at` of the ascending values lies, interpolated between
/// neighbors; 0 if there are none.
pub fn quantile(ascending: &[f64], at: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else {
        return 0.0;
    };
    let place = at * last as f64;
    let below = ascending[place.floor() as usize];
    let above = ascending[place.ceil() as usize];
    below + (above - below) * place.fract()
}

/// The middle value; 0 if there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Jain's index of fairness: 1 where all shares are equal, 1/n where one of n has everything. 1 if
/// there are none.
pub fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 {
        sum * sum / (shares.len() as f64 * squares)
    } else {
        1.0
    }
}

/// Tokens a second while all streams were generating: from when the last of them had its first
/// token until the first of them had its last. `None` where less than a quarter of all tokens came
/// in that time: then it says little.
///
/// Each stream is the ascending times of its tokens, in seconds.
pub fn common_rate(streams: &[Vec<f64>]) -> Option<f64> {
    let starts = streams.iter().map(|times| times.first().copied());
    let ends = streams.iter().map(|times| times.last().copied());
    let begin = starts
        .collect::<Option<Vec<f64>>>()?
        .into_iter()
        .fold(f64::MIN, f64::max);
    let end = ends
        .collect::<Option<Vec<f64>>>()?
        .into_iter()
        .fold(f64::MAX, f64::min);
    let inside = |time: &&f64| **time > begin && **time <= end;
    let tokens: usize = streams
        .iter()
        .map(|times| times.iter().filter(inside).count())
        .sum();
    let all: usize = streams.iter().map(Vec::len).sum();
    (end > begin && 4 * tokens >= all).then(|| tokens as f64 / (end - begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() < 1e-9,
            "{value} instead of {expected}"
        );
    }

    #[test]
    fn quantiles_lie_between_neighbors() {
        let values: Vec<f64> = (1..=5).map(f64::from).collect();
        near(quantile(&values, 0.5), 3.0);
        near(quantile(&values, 0.99), 4.96);
        near(quantile(&values, 1.0), 5.0);
        near(quantile(&[], 0.5), 0.0);
        let spread = Spread::from_values(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (spread.count, spread.mean, spread.p50, spread.max),
            (3, 2.0, 2.0, 3.0)
        );
        assert_eq!(Spread::from_values(Vec::new()), Spread::default());
    }

    #[test]
    fn fairness_is_one_for_equals_and_a_share_for_a_monopoly() {
        near(fairness(&[2.0, 2.0, 2.0]), 1.0);
        near(fairness(&[0.0, 0.0, 5.0, 0.0]), 0.25);
        near(fairness(&[]), 1.0);
    }

    #[test]
    fn the_common_rate_counts_only_what_all_streams_share() {
        // Common from 2 to 4 seconds: tokens at 3 and 4 of both.
        let streams = [vec![1.0, 2.0, 3.0, 4.0], vec![2.0, 3.0, 4.0, 5.0, 6.0]];
        assert_eq!(common_rate(&streams), Some(2.0));
        assert_eq!(common_rate(&[vec![1.0, 2.0], vec![3.0, 4.0]]), None);
        assert_eq!(common_rate(&[vec![1.0, 2.0], vec![]]), None);
    }
}
