//! Random numbers that are the same on every machine for the same seed.

/// A stream of random numbers (SplitMix64): small and fast, good enough for loads and weights.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts the stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts the stream of a seed and a name, which is independent of all other names.
    pub(crate) fn named(seed: u64, name: &str) -> Self {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(Self(seed ^ hash).next_u64())
    }

    /// Returns the next 64 random bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to `end`, without `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// A number close to the normal distribution of mean 0 and deviation 1, at the cost of an
    /// addition: the sum of four uniform ones, none of which is beyond 3.47.
    pub(crate) fn weight(&mut self) -> f32 {
        let bits = self.next_u64();
        let sum: i32 = (0..4)
            .map(|part| ((bits >> (16 * part)) & 0xffff) as i32)
            .sum();
        // Four uniform numbers of 16 bits have a mean of 2 * 65535 and a deviation of 65536 /
        // sqrt(3).
        (sum - 131_070) as f32 * (1.732_050_8 / 65_536.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..20_000).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / 2e4;
        let variance = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / 2e4;
        (mean, variance.sqrt())
    }

    #[test]
    fn distributions_have_their_mean_and_deviation() {
        let mut random = Random::new(1);
        let near = |(mean, deviation): (f64, f64), expected: (f64, f64)| {
            assert!((mean - expected.0).abs() < 0.03, "mean {mean}");
            assert!(
                (deviation - expected.1).abs() < 0.03,
                "deviation {deviation}"
            );
        };
        near(moments(|| f64::from(random.weight())), (0.0, 1.0));
        near(moments(|| random.below(10) as f64), (4.5, 2.872));
    }

    #[test]
    fn a_name_has_a_stream_of_its_own() {
        let mut same = Random::named(1, "a");
        assert_eq!(Random::named(1, "a").next_u64(), same.next_u64());
        assert_ne!(
            Random::named(1, "b").next_u64(),
            Random::named(1, "a").next_u64()
        );
    }
}
