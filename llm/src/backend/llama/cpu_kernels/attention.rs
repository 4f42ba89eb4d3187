//! Attention computed by the kernels in place of ggml, through `shim.cpp`, for models with packed
//! weights.

use graphmill_kernels::{Attention, Kernels, Numbers, Rows};
use llama_cpp_sys_2 as sys;

use super::ATTACHED;
use super::calls::{ALIGNMENT, next_parts};
use super::panics::{guarded, guarded_in};

/// Mirrors `graphmill_rows` of `shim.h`, field by field.
#[repr(C)]
struct RawRows {
    first: *const u8,
    strides: [usize; 3],
}

/// Mirrors `graphmill_attention` of `shim.h`, field by field.
#[repr(C)]
struct RawAttention {
    tokens: i64,
    heads: i64,
    kv_heads: i64,
    cells: i64,
    streams: i64,
    key_size: i64,
    value_size: i64,
    queries: RawRows,
    keys: RawRows,
    key_type: i32,
    values: RawRows,
    value_type: i32,
    mask: RawRows,
    sinks: *const f32,
    scale: f32,
    cap: f32,
    max_bias: f32,
    out: *mut f32,
    scratch: *mut u8,
    scratch_bytes: usize,
    thread: i32,
    threads: i32,
    pool: *mut sys::ggml_threadpool,
}

/// Returns the kernels' name for a number type of ggml; `None` if they do not read it.
fn numbers(ggml_type: sys::ggml_type) -> Option<Numbers> {
    match ggml_type {
        sys::GGML_TYPE_F32 => Some(Numbers::F32),
        sys::GGML_TYPE_F16 => Some(Numbers::F16),
        sys::GGML_TYPE_BF16 => Some(Numbers::Bf16),
        sys::GGML_TYPE_Q8_0 => Some(Numbers::Q8_0),
        sys::GGML_TYPE_Q5_1 => Some(Numbers::Q5_1),
        sys::GGML_TYPE_Q5_0 => Some(Numbers::Q5_0),
        sys::GGML_TYPE_Q4_1 => Some(Numbers::Q4_1),
        sys::GGML_TYPE_Q4_0 => Some(Numbers::Q4_0),
        _ => None,
    }
}

/// Returns the attached kernels, if they compute attention.
fn kernels() -> Option<Kernels> {
    ATTACHED.get().copied().filter(Kernels::attends)
}

/// Returns true if the kernels compute attention over keys and values of these types, for a model
/// with packed weights.
pub(crate) fn attends(keys: sys::ggml_type, values: sys::ggml_type) -> bool {
    kernels().is_some() && numbers(keys).is_some() && numbers(values).is_some()
}

impl RawRows {
    fn rows(&self) -> Rows {
        Rows {
            first: self.first,
            strides: self.strides,
        }
    }
}

impl RawAttention {
    /// Converts to the kernels' form; `None` if there is no kernel for this attention.
    fn attention(&self) -> Option<(Kernels, Attention)> {
        let kernels = kernels()?;
        let size = |count: i64| usize::try_from(count).ok();
        let attention = Attention {
            tokens: size(self.tokens)?,
            heads: size(self.heads)?,
            kv_heads: size(self.kv_heads)?,
            cells: size(self.cells)?,
            streams: size(self.streams)?,
            key_size: size(self.key_size)?,
            value_size: size(self.value_size)?,
            queries: self.queries.rows(),
            keys: self.keys.rows(),
            key_numbers: numbers(self.key_type as sys::ggml_type)?,
            values: self.values.rows(),
            value_numbers: numbers(self.value_type as sys::ggml_type)?,
            mask: (!self.mask.first.is_null()).then(|| self.mask.rows()),
            sinks: self.sinks,
            scale: self.scale,
            cap: self.cap,
            max_bias: self.max_bias,
            out: self.out,
        };
        // Linear biases change each score, which llama.cpp does faster.
        let biased = self.max_bias > 0.0;
        (!biased && attention.fits()).then_some((kernels, attention))
    }

    /// Returns the start of the scratch memory that the threads share.
    fn scratch(&self, attention: &Attention) -> *mut u8 {
        let needed = attention.scratch_bytes(self.threads as usize);
        if needed == 0 {
            return self.scratch;
        }
        let skipped = self.scratch.align_offset(ALIGNMENT);
        assert!(
            skipped + needed <= self.scratch_bytes,
            "room for parts of attention"
        );
        self.scratch.wrapping_add(skipped)
    }
}

/// Returns true if there is a kernel for this attention. Does not read the tensors' data.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_attends(attention: &RawAttention) -> bool {
    guarded(|| attention.attention().is_some())
}

/// Returns the size of the scratch memory, in bytes. Does not read the tensors' data.
#[unsafe(no_mangle)]
extern "C" fn graphmill_kernels_attention_bytes(raw: &RawAttention) -> usize {
    guarded(|| {
        let attention = raw.attention();
        attention.map_or(0, |(_, attention)| {
            attention.scratch_bytes(raw.threads as usize) + ALIGNMENT
        })
    })
}

/// Computes parts until none is left. Returns true if parts must be merged.
///
/// # Safety
/// The attention is as ggml describes it for the calling thread, and the pool is computing it.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_attend(raw: &RawAttention) -> bool {
    let Some((kernels, attention)) = guarded_in(raw.pool, || raw.attention()) else {
        return false; // only what was found to have a kernel comes here
    };
    let threads = raw.threads as usize;
    guarded_in(raw.pool, || {
        let scratch = raw.scratch(&attention);
        // SAFETY: the pool is computing this, and gives each part to one thread only. ggml's
        // tensors are of these shapes and nobody writes them meanwhile; the scratch memory is this
        // operation's.
        unsafe {
            for part in next_parts(raw.pool, attention.parts(threads)) {
                attention.compute(kernels, part, threads, scratch);
            }
        }
    });
    // The same on all threads, also after a panic: they wait for each other.
    attention.merges(threads) > 0
}

/// Merges this thread's share of the results.
///
/// # Safety
/// As for [`graphmill_kernels_attend`], which has returned on all threads.
#[unsafe(no_mangle)]
unsafe extern "C" fn graphmill_kernels_merge_attention(raw: &RawAttention) {
    guarded_in(raw.pool, || {
        let Some((kernels, attention)) = raw.attention() else {
            return;
        };
        let scratch = raw.scratch(&attention);
        let (thread, threads) = (raw.thread as usize, raw.threads as usize);
        for index in (thread..attention.merges(threads)).step_by(threads) {
            // SAFETY: all parts are computed, and other threads have other results.
            unsafe { attention.merge(kernels, index, threads, scratch) };
        }
    });
}
