//! Typical sampling and XTC, applied to the weights of tokens. A weight of 0 means that the token
//! cannot be drawn.

/// Keeps the tokens whose surprise is closest to the entropy, as few as have more than this share
/// of the probability.
pub(super) fn keep_typical(weights: &mut [f32], share: f32) {
    let total: f64 = weights.iter().copied().map(f64::from).sum();
    let surprise = |weight: f32| -(f64::from(weight) / total).ln();
    let entropy: f64 = weights
        .iter()
        .filter(|weight| **weight > 0.0)
        .map(|weight| f64::from(*weight) / total * surprise(*weight))
        .sum();
    let mut order: Vec<(f64, usize)> = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0.0)
        .map(|(index, weight)| ((surprise(*weight) - entropy).abs(), index))
        .collect();
    let target = f64::from(share) * total;
    let mut mass = 0.0;
    // The token with which the share is exceeded is in this part. Halves without it are kept or
    // dropped as a whole.
    let mut rest = &mut order[..];
    while rest.len() > 1 {
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle, |left, right| {
            left.0.total_cmp(&right.0).then(left.1.cmp(&right.1))
        });
        let (near, far) = rest.split_at_mut(middle);
        let near_mass: f64 = near
            .iter()
            .map(|(_, index)| f64::from(weights[*index]))
            .sum();
        if mass + near_mass > target {
            for (_, index) in &*far {
                weights[*index] = 0.0;
            }
            rest = near;
        } else {
            mass += near_mass;
            rest = far;
        }
    }
}

/// Drops every token with at least this share of the probability, except the least likely of them.
pub(super) fn drop_top(weights: &mut [f32], share: f32) {
    let total: f64 = weights.iter().copied().map(f64::from).sum();
    let least_weight = f64::from(share) * total;
    let is_top = |weight: f32| weight > 0.0 && f64::from(weight) >= least_weight;
    let top = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| is_top(**weight));
    // Of equal weights, the first counts as more likely.
    let Some((least, _)) =
        top.min_by(|left, right| left.1.total_cmp(right.1).then(right.0.cmp(&left.0)))
    else {
        return;
    };
    for (index, weight) in weights.iter_mut().enumerate() {
        if index != least && is_top(*weight) {
            *weight = 0.0;
        }
    }
}
