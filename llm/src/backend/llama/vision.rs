//! The projector of a model, by libmtmd.

use std::ffi::CString;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::thread;

use super::device_memory::Available;
use super::devices;
use super::ffi::{self, Chunk, ChunkOrText, Mtmd, MtmdParams};
use super::model::Weights;
use crate::backend::interface::{Piece, PreparedTile, Projector};
use crate::model::files::FileState;
use crate::model::info::Mebibytes;
use crate::protocol::LoadError;
use crate::room;
use crate::spec::{Device, LlmEngineSpec, VisionSpec};
use crate::vision::Bitmap;

/// Loads the projector of a spec beside the weights, and sets aside what it takes. `None` if there
/// is none, or it cannot be used and need not be.
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
            tracing::warn!(%error, "the model is loaded without the projector beside it");
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
    let refused = |message: String| LoadError::Model {
        path: vision.mmproj.clone(),
        message,
    };
    let path = CString::new(vision.mmproj.as_os_str().as_bytes())
        .map_err(|_| refused("the path has a NUL character".to_owned()))?;
    let (gpu, params) = params(spec)?;
    let bytes = Mtmd::bytes(&path, params).max(FileState::of(&vision.mmproj)?.bytes());
    check_room(vision, bytes, gpu)?;
    let (mtmd, heard) = ffi::listen(|| Mtmd::load(Arc::clone(&weights.model), &path, params));
    let mtmd = mtmd.ok_or_else(|| {
        let complaint = heard.complaint();
        refused(complaint.unwrap_or_else(|| "libmtmd cannot load it".to_owned()))
    })?;
    let cannot = if !mtmd.reads_images() {
        Some("it reads no images")
    } else if mtmd.has_grid_positions() {
        Some(
            "the model counts the positions of an image in two dimensions (M-RoPE), which is not supported yet",
        )
    } else if mtmd.looks_ahead() {
        Some(
            "the positions of an image see those behind them (non-causal attention), which is not supported yet",
        )
    } else {
        None
    };
    if let Some(why) = cannot {
        return Err(refused(why.to_owned()));
    }
    available.set_aside_projector(gpu, bytes);
    Ok(Arc::new(MtmdProjector(Arc::new(mtmd))))
}

/// Refuses a projector that is larger than the memory it would be loaded into.
fn check_room(vision: &VisionSpec, bytes: u64, gpu: Option<usize>) -> Result<(), LoadError> {
    match room::available_bytes() {
        Some(available) if gpu.is_none() && bytes > available => Err(LoadError::Memory {
            path: vision.mmproj.clone(),
            message: format!(
                "it takes {}, and {} are available on this machine",
                Mebibytes(bytes),
                Mebibytes(available)
            ),
        }),
        _ => Ok(()),
    }
}

/// The number of the GPU that encodes, if one does, and what libmtmd is told.
fn params(spec: &LlmEngineSpec) -> Result<(Option<usize>, MtmdParams), LoadError> {
    let (gpu, device) = match spec.device {
        Device::Cpu => (None, None),
        Device::Gpu(number) => (Some(number as usize), Some(devices::gpu(number)?)),
        Device::Auto => (devices::gpus().first().map(|_| 0), None),
    };
    let processors = || thread::available_parallelism().map_or(1, NonZero::get) as u32;
    let knobs = &spec.plugin_config;
    let threads = knobs.batch_threads.or(knobs.threads);
    Ok((
        gpu,
        MtmdParams {
            use_gpu: gpu.is_some(),
            device,
            threads: threads.unwrap_or_else(processors),
        },
    ))
}

struct MtmdProjector(Arc<Mtmd>);

impl Projector for MtmdProjector {
    fn width(&self) -> usize {
        self.0.width()
    }

    fn prepare(&self, bitmap: &Bitmap) -> Result<Vec<Piece>, String> {
        let size = (bitmap.width(), bitmap.height());
        let chunks = self.0.prepare(size, bitmap.rgb())?;
        let piece = |chunk| match chunk {
            ChunkOrText::Text(tokens) => Piece::Text(tokens),
            ChunkOrText::Chunk(chunk) => Piece::Tile(Box::new(chunk)),
        };
        Ok(chunks.into_iter().map(piece).collect())
    }
}

impl PreparedTile for Chunk {
    fn positions(&self) -> u32 {
        self.positions()
    }

    fn encode(&self) -> Result<Vec<f32>, String> {
        self.encode()
    }
}
