//! The projector of a model, run by libmtmd.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use super::device_memory::Available;
use super::devices;
use super::ffi::{self, Mtmd};
use super::model::{Weights, c_path};
use super::plan;
use crate::backend::interface::{DecodedMedium, Piece, Projector, Sound, TILE_SECONDS, TileShape};
use crate::memory_budget;
use crate::model::files::FileState;
use crate::model::info::Mebibytes;
use crate::protocol::LoadError;
use crate::settings::{Device, LlmEngineSpec, VisionSpec};

/// Loads the projector of a spec and sets aside its memory. `None` if the spec has none, or if it
/// cannot be used and is optional.
pub(super) fn load(
    spec: &LlmEngineSpec,
    weights: &Weights,
    available: &mut Available,
) -> Result<Option<Arc<dyn Projector>>, LoadError> {
    let Some(vision) = &spec.vision else {
        return Ok(None);
    };
    match load_projector(spec, vision, weights, available) {
        Err(error) if !vision.required => {
            tracing::warn!(%error, "the model is loaded without its projector, which cannot be used");
            Ok(None)
        }
        loaded => loaded.map(Some),
    }
}

fn load_projector(
    spec: &LlmEngineSpec,
    vision: &VisionSpec,
    weights: &Weights,
    available: &mut Available,
) -> Result<Arc<dyn Projector>, LoadError> {
    let refused = |message: String| LoadError::model(&vision.mmproj, message);
    let path = c_path(&vision.mmproj)?;
    let (gpu, device) = match spec.device {
        Device::Cpu => (None, None),
        Device::Gpu(number) => (Some(number as usize), Some(devices::gpu(number)?)),
        Device::Auto => (devices::gpus().first().map(|_| 0), None),
    };
    let knobs = &spec.plugin_config;
    let processors = || thread::available_parallelism().map_or(1, NonZero::get) as u32;
    let threads = knobs.batch_threads.or(knobs.threads);
    let params = ffi::projector_params(threads.unwrap_or_else(processors), gpu.is_some(), device);
    let bytes = Mtmd::bytes(&path, &params).max(FileState::read(&vision.mmproj)?.bytes);
    if let Some(available) = memory_budget::available_bytes()
        && gpu.is_none()
        && bytes > available
    {
        let (bytes, available) = (Mebibytes(bytes), Mebibytes(available));
        let message = format!("it takes {bytes}, and {available} are available on this machine");
        return Err(LoadError::memory(&vision.mmproj, message));
    }
    let (mtmd, heard) = ffi::listen(|| Mtmd::load(Arc::clone(&weights.model), &path, &params));
    let mtmd = mtmd.ok_or_else(|| refused(heard.complaint_or("libmtmd cannot load it")))?;
    if !mtmd.reads_images() && mtmd.sound_rate().is_none() {
        return Err(refused("it reads neither images nor sound".to_owned()));
    }
    available.set_aside_projector(gpu, bytes);
    let mtmd = Arc::new(mtmd);
    Ok(Arc::new(MtmdProjector {
        longest: longest_tile(&mtmd).map_err(refused)?,
        mtmd,
        at_once: plan::ubatch(spec),
    }))
}

/// Returns the number of positions in the largest tile of a sound that lasts [`TILE_SECONDS`]; 0 if
/// the projector reads no sound.
fn longest_tile(mtmd: &Arc<Mtmd>) -> Result<u32, String> {
    let Some(rate) = mtmd.sound_rate() else {
        return Ok(0);
    };
    let silence = Sound::silence(rate.get() as usize * TILE_SECONDS);
    let pieces = mtmd.prepare(&DecodedMedium::Sound(silence))?.into_iter();
    let positions = pieces.map(|piece| match piece {
        Piece::Text(_) => 0,
        Piece::Tile(tile) => tile.shape().positions,
    });
    Ok(positions.max().unwrap_or(0))
}

struct MtmdProjector {
    mtmd: Arc<Mtmd>,
    /// Maximum number of positions that the model computes at once.
    at_once: u32,
    /// Maximum number of positions in a tile of a sound.
    longest: u32,
}

impl Projector for MtmdProjector {
    fn width(&self) -> usize {
        self.mtmd.width
    }

    fn reads_images(&self) -> bool {
        self.mtmd.reads_images()
    }

    fn sound_rate(&self) -> Option<NonZero<u32>> {
        self.mtmd.sound_rate()
    }

    fn prepare(&self, decoded: &DecodedMedium) -> Result<Vec<Piece>, String> {
        let pieces = self.mtmd.prepare(decoded)?;
        for piece in &pieces {
            if let Piece::Tile(tile) = piece {
                self.check(tile.shape())?;
            }
        }
        Ok(pieces)
    }
}

impl MtmdProjector {
    /// Refuses a tile that the model or the projector cannot compute.
    fn check(&self, shape: TileShape) -> Result<(), String> {
        if shape.looks_ahead && shape.positions > self.at_once {
            return Err(format!(
                "its {} positions must be computed at once, and the limit is {} (ubatch and max_num_batched_tokens)",
                shape.positions, self.at_once
            ));
        }
        if shape.is_sound && shape.positions > self.longest {
            return Err(format!(
                "the sound is too long: its projector takes at most {TILE_SECONDS} seconds"
            ));
        }
        Ok(())
    }
}
