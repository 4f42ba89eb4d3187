//! Constants of powers of two.

/// Coefficients of `(2^x - 1) / x` for x from -1/2 to 1/2, that of the highest power of x first.
/// With rounding, the result is off by 8e-8 at most.
pub(crate) const COEFFICIENTS: [f32; 6] = [
    0.000_153_533_62,
    0.001_339_887_5,
    0.009_618_437,
    0.055_503_324,
    0.240_226_48,
    std::f32::consts::LN_2,
];
/// Below this exponent, powers have fewer bits, and processors take long for them.
pub(crate) const LEAST: f32 = -126.0;
