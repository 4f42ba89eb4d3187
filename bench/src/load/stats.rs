//! Numbers that describe many numbers.

/// The value below which a share of `at` of the ascending values lies, interpolated between
/// neighbors; 0 if there are none.
pub(crate) fn quantile(ascending: &[f64], at: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else {
        return 0.0;
    };
    let place = at * last as f64;
    let below = ascending[place.floor() as usize];
    let above = ascending[place.ceil() as usize];
    below + (above - below) * place.fract()
}

/// The middle value; 0 if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Tokens a second while all streams were generating: from when the last of them had its first
/// token until the first of them had its last. `None` where less than a quarter of all tokens came
/// in that time: then it says little.
///
/// Each stream is the ascending times of its tokens, in seconds.
pub(crate) fn common_rate(streams: &[&[f64]]) -> Option<f64> {
    let (mut begin, mut end) = (f64::MIN, f64::MAX);
    for times in streams {
        begin = begin.max(*times.first()?);
        end = end.min(*times.last()?);
    }
    let times = streams.iter().copied().flatten();
    let inside = times.filter(|time| **time > begin && **time <= end);
    let tokens = inside.count();
    let all: usize = streams.iter().map(|times| times.len()).sum();
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
        near(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn the_common_rate_counts_only_what_all_streams_share() {
        // Common from 2 to 4 seconds: tokens at 3 and 4 of both.
        let rate = common_rate(&[&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 4.0, 5.0, 6.0]]);
        assert_eq!(rate, Some(2.0));
        assert_eq!(common_rate(&[&[1.0, 2.0], &[3.0, 4.0]]), None);
        assert_eq!(common_rate(&[&[1.0, 2.0], &[]]), None);
    }
}
