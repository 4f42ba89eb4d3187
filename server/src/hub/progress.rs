//! Progress of downloading or quantizing a model.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bytes;

/// The current work on a model.
#[derive(Clone, Copy, Debug)]
enum Now {
    /// Downloaded bytes, and total bytes.
    Downloading { done: u64, total: u64 },
    /// Share of the weights that was written, from 0 to 1.
    Quantizing(f32),
}

/// Current work. Models are prepared one at a time, as graphs are loaded.
static NOW: Mutex<Option<Now>> = Mutex::new(None);

/// Locks the current work. A panic cannot leave this plain data inconsistent.
fn now() -> MutexGuard<'static, Option<Now>> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard that reports the work on a model until it is dropped.
pub(crate) struct ProgressGuard(());

impl ProgressGuard {
    /// Reports a download of `total` bytes.
    pub(super) fn downloading(total: u64) -> Self {
        *now() = Some(Now::Downloading { done: 0, total });
        Self(())
    }

    /// Reports that a model is being quantized.
    pub(crate) fn quantizing() -> Self {
        *now() = Some(Now::Quantizing(0.0));
        Self(())
    }
}

/// Reports the number of downloaded bytes of all files.
pub(super) fn reached(bytes: u64) {
    if let Some(Now::Downloading { done, .. }) = &mut *now() {
        *done = bytes;
    }
}

/// Reports the share of the weights that was written, from 0 to 1.
pub(crate) fn quantized(part: f32) {
    if let Some(Now::Quantizing(before)) = &mut *now() {
        *before = part;
    }
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        *now() = None;
    }
}

/// Returns the kind of work, and its progress from 0 to 1.
pub(crate) fn stage() -> Option<(&'static str, f32)> {
    Some(match (*now())? {
        Now::Downloading { done, total } => ("downloading", done as f32 / total.max(1) as f32),
        Now::Quantizing(part) => ("quantizing", part),
    })
}

/// Returns the kind of work and its progress in one line.
pub(crate) fn line() -> Option<String> {
    let (stage, part) = stage()?;
    let of = match (*now())? {
        Now::Downloading { done, total } => format!(" ({} of {})", bytes(done), bytes(total)),
        Now::Quantizing(_) => String::new(),
    };
    Some(format!("{stage} {:.0} %{of}", part * 100.0))
}
