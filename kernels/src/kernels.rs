//! The choice of instructions, and the functions that every choice implements.

use crate::data::activation::ActivationLayout;
use crate::data::float;
use crate::data::format::Format;
use crate::data::matmul::{self, Matmul, Output};
use crate::data::panel::{self, ROWS};
use crate::portable;
#[cfg(target_arch = "x86_64")]
use crate::x86::{self, Instructions};

/// The instructions that matmuls use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels {
    set: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    X86(Instructions),
    Portable,
}

/// The instructions for floating point: attention and the gates of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatSet {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Kernels {
    /// The best instructions of this CPU; `None` if there are no kernels for any of them.
    pub fn detect() -> Option<Self> {
        Self::all()
            .into_iter()
            .find(|kernels| kernels.set != Set::Portable)
    }

    /// Every choice that this CPU can run, the best first and plain Rust last: for tests and
    /// measurements.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
        {
            if x86::amx::available() {
                all.push(Self {
                    set: Set::X86(Instructions::Amx),
                });
            }
            all.push(Self {
                set: Set::X86(Instructions::Avx512),
            });
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            if is_x86_feature_detected!("avxvnni") {
                all.push(Self {
                    set: Set::X86(Instructions::AvxVnni),
                });
            }
            all.push(Self {
                set: Set::X86(Instructions::Avx2),
            });
        }
        all.push(Self { set: Set::Portable });
        all
    }

    /// Returns true if a model takes less time than with stock llama.cpp, compiled for the same
    /// instructions, AMX included where the processor has it.
    pub fn beats_stock(&self) -> bool {
        !matches!(self.set, Set::Portable)
    }

    /// Returns true if these instructions compute [`Attention`](crate::Attention).
    pub fn attends(&self) -> bool {
        self.floats().is_some()
    }

    /// Returns the instructions for floating point; `None` means plain Rust.
    pub(crate) fn floats(self) -> Option<FloatSet> {
        match self.set {
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::Amx | Instructions::Avx512) => Some(FloatSet::Avx512),
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::AvxVnni | Instructions::Avx2) => Some(FloatSet::Avx2),
            Set::Portable => None,
        }
    }

    /// Returns the name of the instructions, for logs.
    pub fn name(&self) -> &'static str {
        match self.set {
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::Amx) => "AMX-INT8",
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::Avx512) => "AVX512-VNNI",
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::AvxVnni) => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Set::X86(Instructions::Avx2) => "AVX2",
            Set::Portable => "portable",
        }
    }

    /// Rows that are packed together.
    pub fn panel_rows(&self) -> usize {
        ROWS
    }

    /// Bytes of the packed weights of `rows` x `cols`; none for formats and shapes that have no
    /// kernel.
    pub fn packed_bytes(&self, format: Format, rows: usize, cols: usize) -> Option<usize> {
        if rows == 0 || cols == 0 || !cols.is_multiple_of(format.block()) {
            return None;
        }
        Some(rows.div_ceil(ROWS) * (cols / format.block()) * panel::unit_bytes(format))
    }

    /// Packs rows as they are in the file. A matrix may be packed a number of rows at a time, that
    /// number a multiple of [`Kernels::panel_rows`]. An infinite scale is packed as NaN, and the
    /// results of its row are NaN.
    ///
    /// # Panics
    /// If `panels` is not of the length that [`Kernels::packed_bytes`] gives for the rows in
    /// `source`.
    pub fn pack(&self, format: Format, cols: usize, source: &[u8], panels: &mut [u8]) {
        let rows = source.len() / format.row_bytes(cols);
        assert_eq!(source.len(), rows * format.row_bytes(cols), "whole rows");
        assert_eq!(
            Some(panels.len()),
            self.packed_bytes(format, rows, cols),
            "room for the rows"
        );
        panel::pack(format, cols, source, panels);
    }

    /// Bytes of a quantized activation.
    pub fn activation_bytes(&self, format: Format, cols: usize) -> usize {
        if format.is_float() {
            4 * float::stride(cols)
        } else {
            ActivationLayout::new(cols).bytes()
        }
    }

    /// Quantizes activations of `cols` elements each. A block of 32 with an element that is not
    /// finite makes every result of its activation NaN. For weights of floating point, activations
    /// are copied as they are.
    ///
    /// # Panics
    /// If `activations` has not [`Kernels::activation_bytes`] for each activation in `source`.
    pub fn quantize(&self, format: Format, cols: usize, source: &[f32], activations: &mut [u8]) {
        let bytes = self.activation_bytes(format, cols);
        assert_eq!(
            source.len() / cols * bytes,
            activations.len(),
            "room for the activations"
        );
        for (source, row) in source
            .chunks_exact(cols)
            .zip(activations.chunks_exact_mut(bytes))
        {
            if format.is_float() {
                float::copy(source, row);
                continue;
            }
            let layout = ActivationLayout::new(cols);
            match self.set {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: all sets of instructions include AVX2.
                Set::X86(_) => unsafe { x86::quantize(layout, source, row) },
                Set::Portable => layout.quantize(source, row),
            }
        }
    }

    /// Into how many parts threads divide a matmul of this shape; 0 if nothing is to be computed.
    pub fn parts(&self, rows: usize, tokens: usize, threads: usize) -> usize {
        matmul::parts(rows, tokens, threads)
    }

    /// Computes part `part` of `parts` (which [`Kernels::parts`] gives; any number will do, with
    /// the same result).
    ///
    /// # Safety
    /// Parts write disjoint elements of `out`. No other code may read or write those meanwhile: no
    /// two threads may compute the same part at once.
    ///
    /// # Panics
    /// If a buffer is too small for the shape, or the format or shape is one that
    /// [`Kernels::packed_bytes`] refuses.
    pub unsafe fn multiply(&self, matmul: &Matmul<'_>, out: Output<'_>, part: usize, parts: usize) {
        let packed = self.packed_bytes(matmul.format, matmul.rows, matmul.cols);
        assert!(
            packed.is_some_and(|bytes| bytes <= matmul.panels.len()),
            "the panels of {} x {}",
            matmul.rows,
            matmul.cols
        );
        let activations = matmul.tokens * self.activation_bytes(matmul.format, matmul.cols);
        assert!(
            activations <= matmul.activations.len(),
            "{} activations",
            matmul.tokens
        );
        assert!(
            out.holds(matmul.rows, matmul.tokens),
            "room for {} x {} results",
            matmul.tokens,
            matmul.rows
        );
        assert!(part < parts, "part {part} of {parts}");
        let span = matmul::span(matmul, part, parts);
        let float = matmul.format.is_float();
        match self.set {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the span is the caller's alone, and the buffers fit the matmul.
            Set::X86(instructions) if float => unsafe {
                x86::float::multiply(instructions, matmul, &span, out);
            },
            // SAFETY: as above.
            Set::Portable if float => unsafe { float::multiply(matmul, &span, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::X86(instructions) => unsafe { x86::multiply(instructions, matmul, &span, out) },
            // SAFETY: as above.
            Set::Portable => unsafe { portable::multiply(matmul, &span, out) },
        }
    }

    /// Computes a whole matmul on the calling thread, `parts` parts one after the other: the
    /// element of row `r` and token `t` is at `t * rows + r`.
    ///
    /// # Panics
    /// As [`Kernels::multiply`].
    pub fn multiply_all(&self, matmul: &Matmul<'_>, out: &mut [f32], parts: usize) {
        for part in 0..parts {
            // SAFETY: the slice is borrowed for this call alone, and holds as many elements as it
            // says.
            unsafe {
                let place = Output::new(out.as_mut_ptr(), out.len(), matmul.rows);
                self.multiply(matmul, place, part, parts);
            }
        }
    }
}
