//! Loading a GGUF file. Engines that load the same file in the same way share its weights.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::SystemTime;

use llama_cpp_sys_2 as sys;

use super::cpu_kernels::{self, Kernels};
use super::ffi::{self, BufferType, Heard, Mapping, Model, ModelParams};
use super::process::process;
use super::{devices, gguf, log_lines};
use crate::lock::lock;
use crate::memory_budget;
use crate::model::LoadStage;
use crate::model::files::ModelFiles;
use crate::model::info::{BufferInfo, KernelsInfo, Mebibytes};
use crate::model::progress::reached;
use crate::protocol::LoadError;
use crate::settings::{
    CpuKernels, Device, LlmEngineSpec, PluginConfig, SplitMode, TensorOverride, is_trial,
};

/// Weights of a model, possibly shared with other engines.
pub(super) struct Weights {
    pub(super) model: Arc<Model>,
    pub(super) layout: Arc<Layout>,
    /// True if another engine had loaded them before.
    pub(super) shared: bool,
}

impl Weights {
    /// Size of the weights in the form used for computation, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let packed = self.layout.packed.as_ref();
        let (packed, unpacked) =
            packed.map_or((0, 0), |packed| (packed.info.bytes, packed.in_file));
        (self.model.bytes() + packed).saturating_sub(unpacked)
    }
}

/// Memory that holds loaded weights.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) buffers: Vec<BufferInfo>,
    /// Names of the devices, with the number of layers on each.
    pub(super) layers: Vec<(String, u32)>,
    /// The matrices that were packed for kernels; `None` if all products are llama.cpp's own.
    pub(super) packed: Option<PackCounts>,
    /// Address ranges of the mapped files.
    pub(super) mappings: Vec<Range<usize>>,
    /// Held while a context or an adapter is created on the model. llama.cpp does not allow that on
    /// two threads at once.
    pub(super) creating: Mutex<()>,
}

/// Counts of the matrices that were packed while a model was loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct PackCounts {
    pub(super) info: KernelsInfo,
    /// Size of the packed matrices in the file, in bytes.
    pub(super) in_file: u64,
}

/// ggml's name for main memory.
const CPU_BUFFER: &str = "CPU";

/// Properties that must be equal for two engines to share weights: the file, and the options of
/// loading it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct WeightsKey {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
    device: Device,
    /// The options of loading; all others have their defaults.
    knobs: PluginConfig,
}

type ModelMap = HashMap<WeightsKey, (Weak<Model>, Arc<Layout>)>;

/// All weights of this process. Locked while a model is loaded, so that two engines that start at
/// once load it only once.
static LOADED: LazyLock<Mutex<ModelMap>> = LazyLock::new(Mutex::default);

/// Names the files of all loaded weights; empty while a model is being loaded.
pub(super) fn loaded_paths() -> Vec<String> {
    let loaded = LOADED.try_lock().ok();
    let keys = loaded.iter().flat_map(|loaded| loaded.keys());
    keys.map(|key| format!("`{}`", key.path.display()))
        .collect()
}

/// Loads the weights that the spec names, or shares those that are loaded already.
pub(super) fn load(spec: &LlmEngineSpec) -> Result<Weights, LoadError> {
    let process = process(&spec.model)?;
    let key = WeightsKey::new(spec)?;
    if !devices::have_gpus(key.device) {
        for knob in spec.plugin_config.for_gpus() {
            tracing::warn!(model = %spec.model.display(), "`{knob}` has no effect: no GPU takes part");
        }
    }
    let kernels = key.kernels(process.kernels)?;
    let mut loaded = lock(&LOADED);
    loaded.retain(|_, (model, _)| model.strong_count() > 0);
    if let Some((model, layout)) = loaded.get(&key)
        && let Some(model) = model.upgrade()
    {
        return Ok(Weights {
            model,
            layout: Arc::clone(layout),
            shared: true,
        });
    }
    let params = params(&key, kernels)?;
    check_room(&key)?;
    let path = c_path(&spec.model)?;
    let watch = cpu_kernels::PanicWatch::thread();
    let huge_pages = spec.plugin_config.huge_pages != Some(false);
    let ((model, packed), heard) = ffi::listen(|| {
        cpu_kernels::load(kernels.is_some(), huge_pages, || {
            load_file(&key, &path, &params, &spec.model)
        })
    });
    let model = model.ok_or_else(|| refused(&spec.model, &heard))?;
    if watch.panicked() {
        let message =
            "its weights could not be packed for the CPU kernels: load it with `cpu_kernels` `off`";
        return Err(LoadError::model(&spec.model, message));
    }
    let model = Arc::new(model);
    let layout = Arc::new(Layout {
        buffers: log_lines::buffers(&heard.lines),
        layers: log_lines::layers(&heard.lines),
        packed: kernels.map(|_| packed),
        mappings: ffi::mapped(&key.path),
        creating: Mutex::new(()),
    });
    loaded.insert(key, (Arc::downgrade(&model), Arc::clone(&layout)));
    Ok(Weights {
        model,
        layout,
        shared: false,
    })
}

/// Loads a file. If it is mapped but its weights are copied, pages are released once they were
/// read.
fn load_file(key: &WeightsKey, path: &CStr, params: &ModelParams, name: &Path) -> Option<Model> {
    /// Interval at which pages are released, as a fraction of the file.
    const STEP: f32 = 0.125;
    let mapping =
        (key.knobs.mmap != Some(false) && !key.knobs.mlock).then(|| Mapping::expect(&key.path));
    let release = || {
        if let Some(mapping) = &mapping
            && ffi::heard_so_far(log_lines::copies_weights) == Some(true)
        {
            mapping.release();
        }
    };
    let mut next = STEP;
    let model = ffi::load_model(path, params, &mut |part| {
        reached(name, LoadStage::Weights(part));
        if part >= next {
            next += STEP;
            release();
        }
    });
    release();
    reached(name, LoadStage::Preparing);
    model
}

/// Loads the vocabulary and the metadata of a file.
pub(super) fn load_vocab(path: &Path) -> Result<Model, LoadError> {
    process(path)?;
    gguf::check(path)?;
    let name = c_path(path)?;
    let (model, heard) = ffi::listen(|| ffi::load_vocabulary(&name));
    model.ok_or_else(|| refused(path, &heard))
}

/// Converts a path to the form that llama.cpp takes.
pub(super) fn c_path(path: &Path) -> Result<CString, LoadError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| LoadError::model(path, "the path has a NUL character"))
}

/// Makes the error for a file that llama.cpp does not load, with its complaint if there is one.
fn refused(path: &Path, heard: &Heard) -> LoadError {
    let mut message = heard.complaint_or("llama.cpp cannot load it");
    // llama.cpp takes the number of classes from the list of their names.
    if message.contains("'cls.") && message.contains("wrong shape") {
        message.push_str(
            ": `<architecture>.classifier.output_labels` in the file must name each class of its head",
        );
    }
    LoadError::model(path, message)
}

impl WeightsKey {
    fn new(spec: &LlmEngineSpec) -> Result<Self, LoadError> {
        let wrong = |source| LoadError::read(&spec.model, source);
        // `ModelFiles` refuses pipes: opening one would block.
        let files = ModelFiles::read([spec.model.as_path()])?;
        File::open(&spec.model).map_err(wrong)?;
        let metadata = fs::metadata(&spec.model).map_err(wrong)?;
        let knobs = &spec.plugin_config;
        Ok(Self {
            path: spec.model.canonicalize().map_err(wrong)?,
            bytes: files.bytes(),
            modified: metadata.modified().ok(),
            device: spec.device,
            knobs: PluginConfig {
                mmap: Some(knobs.mmap.unwrap_or(true)),
                mlock: knobs.mlock,
                gpu_layers: knobs.gpu_layers,
                split_mode: knobs.split_mode,
                main_gpu: knobs.main_gpu,
                tensor_split: knobs.tensor_split.clone(),
                override_tensor: knobs.override_tensor.clone(),
                cpu_kernels: knobs.cpu_kernels,
                mtp: knobs.mtp,
                ..PluginConfig::default()
            },
        })
    }

    /// Returns the kernels that the weights are packed for, out of those that are attached.
    fn kernels(&self, attached: Option<Kernels>) -> Result<Option<Kernels>, LoadError> {
        let wanted = cpu_kernels::wanted(self.knobs.cpu_kernels, attached);
        if self.knobs.cpu_kernels == CpuKernels::On && wanted.is_none() {
            let message = if cfg!(not(feature = "cpu-kernels")) {
                "is `on`, but this build has no kernels (cargo feature `cpu-kernels`)"
            } else {
                "is `on`, but the kernels are off: this processor lacks their instructions, or the log gives another reason"
            };
            return Err(LoadError::spec("cpu_kernels", message));
        }
        Ok(wanted.filter(|_| !devices::have_gpus(self.device) || self.packs_beside_gpus()))
    }

    /// Returns true if weights in main memory are packed although GPUs take part. GPUs compute
    /// large batches with such weights, but only in the layout of the file; so packing needs a sign
    /// that the weights are meant for the CPU.
    fn packs_beside_gpus(&self) -> bool {
        let mut overrides = self.knobs.override_tensor.iter().flatten();
        match self.knobs.cpu_kernels {
            CpuKernels::On => true,
            CpuKernels::Off => false,
            CpuKernels::Auto => overrides.any(|pair| pair.buffer == CPU_BUFFER) && self.has_room(),
        }
    }

    /// Returns true if all weights would fit into main memory, with an eighth of it left. Packed
    /// weights take memory of the process; mapped ones can be larger.
    fn has_room(&self) -> bool {
        let available = memory_budget::available_bytes();
        let fits = available.is_none_or(|available| self.bytes <= available - available / 8);
        if !fits {
            tracing::warn!(
                model = %self.path.display(),
                "weights in main memory are not packed for the CPU kernels: {} might not fit; `cpu_kernels` `on` packs them anyway",
                Mebibytes(self.bytes)
            );
        }
        fits
    }
}

/// Refuses a file that is larger than the available memory, before it is read.
fn check_room(key: &WeightsKey) -> Result<(), LoadError> {
    if let Some(available) = memory_budget::available_bytes()
        && !devices::have_gpus(key.device)
        && key.bytes > available
    {
        let (bytes, available) = (Mebibytes(key.bytes), Mebibytes(available));
        let message = format!(
            "weights {bytes}, and {available} are available on this machine: use a smaller model, or one with fewer bits per weight"
        );
        return Err(LoadError::memory(&key.path, message));
    }
    Ok(())
}

fn params(key: &WeightsKey, kernels: Option<Kernels>) -> Result<ModelParams, LoadError> {
    let knobs = &key.knobs;
    let gpu_layers = match key.device {
        Device::Cpu => Some(0),
        Device::Gpu(_) | Device::Auto => knobs.gpu_layers,
    };
    let mut raw = ffi::default_model_params();
    raw.n_gpu_layers = gpu_layers.map_or(-1, |layers| layers as i32);
    raw.split_mode = match (key.device, knobs.split_mode) {
        (Device::Auto, None | Some(SplitMode::Layer)) => sys::LLAMA_SPLIT_MODE_LAYER,
        (Device::Auto, Some(SplitMode::Row)) => sys::LLAMA_SPLIT_MODE_ROW,
        _ => sys::LLAMA_SPLIT_MODE_NONE,
    };
    raw.main_gpu = knobs.main_gpu.unwrap_or(0) as i32;
    raw.load_mode = match (knobs.mmap, knobs.mlock) {
        (Some(false), false) => sys::LLAMA_LOAD_MODE_NONE,
        (Some(false), true) => sys::LLAMA_LOAD_MODE_MLOCK,
        (_, false) => sys::LLAMA_LOAD_MODE_MMAP,
        (_, true) => sys::LLAMA_LOAD_MODE_MMAP_MLOCK,
    };
    // A trial copies no weights into layouts for the processor.
    raw.use_extra_bufts = !is_trial();
    // Otherwise weights in main memory are put into pages that a GPU reads faster, instead of into
    // such layouts.
    raw.no_host = kernels.is_some();
    raw.load_mtp = knobs.mtp;
    let shares = knobs.tensor_split.iter().flatten();
    Ok(ModelParams {
        raw,
        devices: match key.device {
            Device::Cpu => Some(Vec::new()),
            Device::Gpu(number) => Some(vec![devices::gpu(number)?]),
            Device::Auto => None,
        },
        tensor_split: shares.map(|share| share.get()).collect(),
        overrides: overrides(knobs.override_tensor.as_deref().unwrap_or_default())?,
    })
}

fn overrides(wanted: &[TensorOverride]) -> Result<Vec<(CString, BufferType)>, LoadError> {
    let wrong = |message: String| LoadError::spec("override_tensor", message);
    let known = ffi::buffer_types();
    let find = |pair: &TensorOverride| {
        let found = known.iter().find(|(name, _)| *name == pair.buffer);
        let (_, buffer) = found.ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
            let (buffer, names) = (&pair.buffer, names.join("`, `"));
            let message = format!("names the unknown buffer `{buffer}`, expected one of `{names}`");
            wrong(message)
        })?;
        let pattern = CString::new(pair.pattern.as_str())
            .map_err(|_| wrong("has a pattern with a NUL character".to_owned()))?;
        Ok((pattern, *buffer))
    };
    wanted.iter().map(find).collect()
}
