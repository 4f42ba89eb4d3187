//! Progress of a model that is fetched or quantized.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bytes;

/// The work on a model.
#[derive(Clone, Copy, Debug)]
enum Now {
    /// Bytes that are here, and all bytes.
    Downloading { done: u64, total: u64 },
    /// This part of the tensors is written.
    Quantizing(f32),
}

/// Models are got ready one after the other, as graphs are loaded.
static NOW: Mutex<Option<Now>> = Mutex::new(None);

/// It is plain data, which a panic cannot leave half changed.
fn now() -> MutexGuard<'static, Option<Now>> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A model that is told of until this is dropped.
pub(crate) struct Told(());

impl Told {
    /// Of a download of so many bytes.
    pub(super) fn downloading(total: u64) -> Self {
        *now() = Some(Now::Downloading { done: 0, total });
        Self(())
    }

    /// Of a file that is written with weights of another type.
    pub(crate) fn quantizing() -> Self {
        *now() = Some(Now::Quantizing(0.0));
        Self(())
    }
}

/// Tells the number of bytes that are here now, of all files.
pub(super) fn reached(bytes: u64) {
    if let Some(Now::Downloading { done, .. }) = &mut *now() {
        *done = bytes;
    }
}

/// This part of the weights is written now, from 0 to 1.
pub(crate) fn quantized(part: f32) {
    if let Some(Now::Quantizing(before)) = &mut *now() {
        *before = part;
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        *now() = None;
    }
}

/// Returns what is being done, and the part of it that is done.
pub(crate) fn stage() -> Option<(&'static str, f32)> {
    Some(match (*now())? {
        Now::Downloading { done, total } => ("downloading", done as f32 / total.max(1) as f32),
        Now::Quantizing(part) => ("quantizing", part),
    })
}

/// Returns the same in one line.
pub(crate) fn line() -> Option<String> {
    let (stage, part) = stage()?;
    let of = match (*now())? {
        Now::Downloading { done, total } => format!(" ({} of {})", bytes(done), bytes(total)),
        Now::Quantizing(_) => String::new(),
    };
    Some(format!("{stage} {:.0} %{of}", part * 100.0))
}
