//! 16-bit floating point, in which files keep scales.

/// The bytes of a binary16 NaN.
pub(crate) const NAN: [u8; 2] = [0x00, 0x7e];

/// The value of an IEEE 754 binary16 number given by its bits.
pub(crate) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        // Subnormal: the fraction counts units of 2^-24, which f32 holds exactly.
        0 => f32::from_bits((fraction as f32 * f32::from_bits(0x3380_0000)).to_bits() | sign),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}

/// Reads two bytes of a file as a binary16 value.
pub(crate) fn read(bytes: &[u8]) -> f32 {
    to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::to_f32;

    #[test]
    fn values_of_every_kind() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f32.powi(-24)),
            (0x83ff, -1023.0 * 2f32.powi(-24)),
            (0x7c00, f32::INFINITY),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(to_f32(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert!(to_f32(0x7e00).is_nan());
    }
}
