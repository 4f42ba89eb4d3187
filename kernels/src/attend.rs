//! Computes attention with the instructions of this CPU, a part at a time.

use crate::data::attention::Attention;
use crate::kernels::{FloatSet, Kernels};
#[cfg(target_arch = "x86_64")]
use crate::x86::attention::{avx2, avx512};

impl Attention {
    /// Computes part `part` of those that [`Attention::parts`] counts for so many threads.
    ///
    /// # Safety
    /// All pointers must be valid for what the shape says, `scratch` for
    /// [`Attention::scratch_bytes`], and nobody may write what is read. Each part writes results
    /// and scratch memory of its own, and nobody else may read or write those meanwhile: no two
    /// threads may compute the same part at once.
    ///
    /// # Panics
    /// If it does not fit ([`Attention::fits`]), these instructions have no kernel for it
    /// ([`Kernels::attends`]), or there is no such part.
    pub unsafe fn compute(&self, kernels: Kernels, part: usize, threads: usize, scratch: *mut u8) {
        assert!(self.fits(), "a kernel for {self:?}");
        let parts = self.parts(threads);
        assert!(part < parts, "part {part} of {parts}");
        let set = set(kernels);
        let plan = self.plan(threads);
        if let Some(pieces) = &plan.cells {
            let (piece, part) = (part % pieces.count, part / pieces.count);
            let shares = self.kv_heads.div_ceil(pieces.heads);
            let (share, part) = (part % shares, part / shares);
            let (stream, token) = (part % self.streams, part / self.streams);
            let first = share * pieces.heads;
            let heads = first..(first + pieces.heads).min(self.kv_heads);
            let begin = |piece: usize| plan.blocks * piece / pieces.count;
            for block in begin(piece)..begin(piece + 1) {
                for head in heads.clone() {
                    let result = (token * self.streams + stream) * self.kv_heads + head;
                    let room = scratch.wrapping_add(result * self.partials(&plan));
                    let place = (head, stream, token);
                    // SAFETY: as the caller promises; the CPU has the instructions.
                    unsafe {
                        match set {
                            #[cfg(target_arch = "x86_64")]
                            FloatSet::Avx512 => avx512::compute_block(self, place, block, room),
                            #[cfg(target_arch = "x86_64")]
                            FloatSet::Avx2 => avx2::compute_block(self, place, block, room),
                        }
                    }
                }
            }
            return;
        }
        let sets = self.streams * self.kv_heads;
        let (index, part) = (part / sets, part % sets);
        let (kv_head, stream) = (part % self.kv_heads, part / self.kv_heads);
        // The last tokens first: they see most.
        let end = self.tokens - index * plan.tokens;
        let tokens = end.saturating_sub(plan.tokens)..end;
        // SAFETY: as the caller promises; the CPU has the instructions.
        unsafe {
            match set {
                #[cfg(target_arch = "x86_64")]
                FloatSet::Avx512 => avx512::compute(self, kv_head, stream, tokens),
                #[cfg(target_arch = "x86_64")]
                FloatSet::Avx2 => avx2::compute(self, kv_head, stream, tokens),
            }
        }
    }

    /// Merges the parts of a result, one of those that [`Attention::merges`] counts.
    ///
    /// # Safety
    /// As for [`Attention::compute`], which must have computed all parts with the same kernels.
    ///
    /// # Panics
    /// If there is no such result, or these instructions have no kernel for it.
    pub unsafe fn merge(&self, kernels: Kernels, index: usize, threads: usize, scratch: *const u8) {
        let merges = self.merges(threads);
        assert!(index < merges, "result {index} of {merges}");
        let sets = self.streams * self.kv_heads;
        let (set_index, token) = (index % sets, index / sets);
        let place = (set_index % self.kv_heads, set_index / self.kv_heads, token);
        let partials = scratch.wrapping_add(index * self.partials(&self.plan(threads)));
        // SAFETY: as the caller promises; the CPU has the instructions.
        unsafe {
            match set(kernels) {
                #[cfg(target_arch = "x86_64")]
                FloatSet::Avx512 => avx512::merge(self, place, partials),
                #[cfg(target_arch = "x86_64")]
                FloatSet::Avx2 => avx2::merge(self, place, partials),
            }
        }
    }
}

fn set(kernels: Kernels) -> FloatSet {
    let set = kernels.floats();
    set.unwrap_or_else(|| panic!("{} has no kernel for attention", kernels.name()))
}
