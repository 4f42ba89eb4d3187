//! Which number type each matrix of a quantized model has.

use super::Type;

/// How a model is quantized, by the names of llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// 16-bit floats.
    F16,
    /// Blocks of 8-bit numbers.
    Q8_0,
    /// Blocks of 4-bit numbers, 8-bit ones for the output.
    Q4_0,
    /// `Q4_K` with `Q6_K` where llama.cpp's `Q4_K_M` has it. Matrices whose rows are not whole
    /// blocks of 256 numbers get the types that llama.cpp then takes instead, `Q5_0` and `Q8_0`.
    Q4KM,
    /// Experts as 4-bit floats that share a power of two, and blocks of 8-bit numbers for the rest.
    MxFp4,
}

/// What a matrix is for, as far as its type depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The embedding, where the output has weights of its own.
    Embedding,
    /// The output, be it the embedding too or not.
    Output,
    /// `attn_v` or `ffn_down` of a layer.
    Sensitive(u32),
    /// Any other.
    Other,
}

impl Quantization {
    /// Its name in file names and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4KM => "q4_k_m",
            Self::MxFp4 => "mxfp4",
        }
    }

    /// What `general.file_type` calls it.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q8_0 => 7,
            Self::Q4KM => 15,
            Self::MxFp4 => 38,
        }
    }

    /// The type of a matrix with rows of `columns` numbers in a model of `layers`.
    pub(super) fn matrix_type(self, role: Role, columns: u64, layers: u32) -> Type {
        match self {
            Self::F16 => Type::F16,
            Self::Q8_0 | Self::MxFp4 => Type::Q8_0,
            Self::Q4_0 if matches!(role, Role::Output | Role::Embedding) => Type::Q8_0,
            Self::Q4_0 => Type::Q4_0,
            Self::Q4KM => {
                let more = match role {
                    Role::Output => true,
                    Role::Sensitive(layer) => more_bits(layer, layers),
                    Role::Embedding | Role::Other => false,
                };
                match (more, columns.is_multiple_of(Type::Q4K.block() as u64)) {
                    (true, true) => Type::Q6K,
                    (true, false) => Type::Q8_0,
                    (false, true) => Type::Q4K,
                    (false, false) => Type::Q5_0,
                }
            }
        }
    }

    /// The type of experts, if other matrices of their kind have this one.
    pub(super) fn expert_type(self, others: Type) -> Type {
        match self {
            Self::MxFp4 => Type::MxFp4,
            Self::F16 | Self::Q8_0 | Self::Q4_0 | Self::Q4KM => others,
        }
    }
}

/// Whether llama.cpp gives more bits to the sensitive matrices of a layer: the first and the last
/// eighth, and every third between.
fn more_bits(layer: u32, layers: u32) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q4_k_m_has_the_types_of_a_published_1_5b_model() {
        let of = |role| Quantization::Q4KM.matrix_type(role, 1536, 28);
        assert_eq!(of(Role::Output), Type::Q6K);
        assert_eq!(of(Role::Other), Type::Q4K);
        let sensitive: Vec<u32> = (0..28)
            .filter(|layer| of(Role::Sensitive(*layer)) == Type::Q6K)
            .collect();
        assert_eq!(
            sensitive,
            [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]
        );
    }

    #[test]
    fn rows_that_are_no_whole_blocks_get_smaller_blocks() {
        let of = |role| Quantization::Q4KM.matrix_type(role, 896, 24);
        assert_eq!(of(Role::Output), Type::Q8_0);
        assert_eq!(of(Role::Sensitive(0)), Type::Q8_0);
        assert_eq!(of(Role::Sensitive(3)), Type::Q5_0);
        assert_eq!(of(Role::Other), Type::Q5_0);
    }
}
