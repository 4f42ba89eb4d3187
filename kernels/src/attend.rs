//! Computes attention with the instructions of this CPU, a part at a time.

use crate::data::attention::Attention;
#[cfg(target_arch = "x86_64")]
use crate::x86::attention as x86;

impl Attention {
    /// Whether this CPU has instructions for it.
    pub fn available() -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Computes part `part` of those that [`Attention::parts`] counts for so many threads.
    ///
    /// # Safety
    /// All pointers must be valid for what the shape says, `scratch` for
    /// [`Attention::scratch_bytes`], and nobody may write what is read. Each part writes results
    /// and scratch memory of its own, and nobody else may read or write those meanwhile: no two
    /// threads may compute the same part at once.
    ///
    /// # Panics
    /// If it does not fit ([`Attention::fits`]), this CPU has no instructions for it, or there is
    /// no such part.
    pub unsafe fn compute(&self, part: usize, threads: usize, scratch: *mut u8) {
        assert!(self.fits() && Self::available(), "a kernel for {self:?}");
        let parts = self.parts(threads);
        assert!(part < parts, "part {part} of {parts}");
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
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as the caller promises; the CPU has the instructions.
                    unsafe {
                        x86::compute_block(self, (head, stream, token), block, room);
                    }
                }
            }
            return;
        }
        let sets = self.streams * self.kv_heads;
        let (set, index) = (part % sets, part / sets);
        let (kv_head, stream) = (set % self.kv_heads, set / self.kv_heads);
        // The last tokens first: they see most.
        let end = self.tokens - index * plan.tokens;
        let tokens = end.saturating_sub(plan.tokens)..end;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises; the CPU has the instructions.
        unsafe {
            x86::compute(self, kv_head, stream, tokens);
        }
    }

    /// Merges the parts of a result, one of those that [`Attention::merges`] counts.
    ///
    /// # Safety
    /// As for [`Attention::compute`], which must have computed all parts.
    ///
    /// # Panics
    /// If there is no such result.
    pub unsafe fn merge(&self, index: usize, threads: usize, scratch: *const u8) {
        let merges = self.merges(threads);
        assert!(index < merges, "result {index} of {merges}");
        let sets = self.streams * self.kv_heads;
        let (set, token) = (index % sets, index / sets);
        let place = (set % self.kv_heads, set / self.kv_heads, token);
        let partials = scratch.wrapping_add(index * self.partials(&self.plan(threads)));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises; parts were computed, so the CPU has the instructions.
        unsafe {
            x86::merge(self, place, partials);
        }
    }
}
