//! Progress of downloading or quantizing a model.

use parking_lot::Mutex;

use super::bytes;

/// The current work on a model.
#[derive(Clone, Copy, Debug)]
struct ModelWork {
    stage: &'static str,
    /// Bytes of a download, or hundredths of a quantization.
    done: u64,
    total: u64,
}

const DOWNLOADING: &str = "downloading";

/// Current work. Models are prepared one at a time, as graphs are loaded.
static NOW: Mutex<Option<ModelWork>> = Mutex::new(None);

/// Guard that reports the work on a model until it is dropped.
pub(crate) struct ProgressGuard(());

impl ProgressGuard {
    /// Reports a download of `total` bytes.
    pub(super) fn downloading(total: u64) -> Self {
        Self::new(DOWNLOADING, total)
    }

    /// Reports that a model is being quantized. The progress is in percent.
    pub(crate) fn quantizing() -> Self {
        Self::new("quantizing", 100)
    }

    fn new(stage: &'static str, total: u64) -> Self {
        *NOW.lock() = Some(ModelWork {
            stage,
            done: 0,
            total,
        });
        Self(())
    }
}

/// Reports the progress of the current work: the downloaded bytes of all files, or the percentage
/// of the weights that was written.
pub(crate) fn reached(progress: u64) {
    if let Some(work) = &mut *NOW.lock() {
        work.done = progress;
    }
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        *NOW.lock() = None;
    }
}

impl ModelWork {
    fn part(&self) -> f32 {
        self.done as f32 / self.total.max(1) as f32
    }
}

/// Returns the kind of work, and its progress from 0 to 1.
pub(crate) fn stage() -> Option<(&'static str, f32)> {
    NOW.lock().map(|work| (work.stage, work.part()))
}

/// Returns the kind of work and its progress in one line, and the progress from 0 to 1.
pub(crate) fn line() -> Option<(String, f32)> {
    let work = (*NOW.lock())?;
    let ModelWork { stage, done, total } = work;
    let of = match stage {
        DOWNLOADING => format!(" ({} of {})", bytes(done), bytes(total)),
        _ => String::new(),
    };
    Some((
        format!("{stage} {:.0} %{of}", work.part() * 100.0),
        work.part(),
    ))
}
