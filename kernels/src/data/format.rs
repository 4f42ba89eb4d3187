//! Formats of weights in GGUF files.

/// Format of a tensor of weights in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Blocks of 32 weights of 8 bits with a scale.
    Q8_0,
    /// Blocks of 32 weights of 4 bits with a scale; 8 stands for zero.
    Q4_0,
    /// Blocks of 32 weights of 5 bits with a scale; 16 stands for zero.
    Q5_0,
    /// Blocks of 32 weights of 5 bits with a scale and a minimum.
    Q5_1,
    /// Blocks of 32 values of a table, indexed by 4 bits, with a power of two for a scale.
    MxFp4,
    /// Blocks of 32 values of a table, indexed by 4 bits, with a scale.
    Iq4Nl,
    /// Blocks of 256 values of the same table, by 4 bits, with a scale of 6 bits for each 32.
    Iq4Xs,
    /// Blocks of 256 weights of 2 bits, with a scale and a minimum of 4 bits for each 16.
    Q2K,
    /// Blocks of 256 weights of 3 bits, with a scale of 6 bits for each 16; 4 stands for zero.
    Q3K,
    /// Blocks of 256 weights of 4 bits, with a scale and a minimum of 6 bits for each 32.
    Q4K,
    /// Blocks of 256 weights of 5 bits, with a scale and a minimum of 6 bits for each 32.
    Q5K,
    /// Blocks of 256 weights of 6 bits, with a scale of 8 bits for each 16; 32 stands for zero.
    Q6K,
    /// Weights of 16 bits, in IEEE 754's binary16.
    F16,
    /// Weights of 16 bits, the upper half of IEEE 754's binary32.
    Bf16,
}

impl Format {
    /// All formats that the kernels multiply.
    pub const ALL: [Format; 14] = [
        Format::Q8_0,
        Format::Q4_0,
        Format::Q5_0,
        Format::Q5_1,
        Format::MxFp4,
        Format::Iq4Nl,
        Format::Iq4Xs,
        Format::Q2K,
        Format::Q3K,
        Format::Q4K,
        Format::Q5K,
        Format::Q6K,
        Format::F16,
        Format::Bf16,
    ];

    /// Weights in a block, its bytes in the file, and as many of a packed row: scales of six bits
    /// are packed as bytes.
    fn sizes(self) -> (usize, usize, usize) {
        match self {
            Format::Q8_0 => (32, 34, 34),
            Format::Q4_0 | Format::Iq4Nl => (32, 18, 18),
            Format::Q5_0 => (32, 22, 22),
            Format::Q5_1 => (32, 24, 24),
            Format::MxFp4 => (32, 17, 17),
            Format::Iq4Xs => (256, 136, 138),
            Format::Q2K => (256, 84, 84),
            Format::Q3K => (256, 110, 114),
            Format::Q4K => (256, 144, 148),
            Format::Q5K => (256, 176, 180),
            Format::Q6K => (256, 210, 210),
            Format::F16 | Format::Bf16 => (1, 2, 2),
        }
    }

    /// Weights in a block of the file.
    pub fn block(self) -> usize {
        self.sizes().0
    }

    /// Bytes of a block in the file.
    pub fn block_bytes(self) -> usize {
        self.sizes().1
    }

    /// Bytes of a block of a packed row.
    pub(crate) fn packed_bytes(self) -> usize {
        self.sizes().2
    }

    /// Returns true if weights are floating-point values, without blocks.
    pub fn is_float(self) -> bool {
        matches!(self, Format::F16 | Format::Bf16)
    }

    /// Bytes of a row of `cols` weights in the file; `cols` is a multiple of [`Format::block`].
    pub fn row_bytes(self, cols: usize) -> usize {
        cols / self.block() * self.block_bytes()
    }
    /// Returns the values of the 4 bits of a weight, in formats that have no more.
    pub(crate) fn table(self) -> [i8; 16] {
        match self {
            Format::MxFp4 => [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12],
            Format::Iq4Nl | Format::Iq4Xs => [
                -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
            ],
            _ => std::array::from_fn(|bits| bits as i8 - 8),
        }
    }
}
