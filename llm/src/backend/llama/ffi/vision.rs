//! Bindings to libmtmd, which encodes images and sounds for a model.

use std::ffi::CStr;
use std::num::NonZero;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Mutex};

use llama_cpp_sys_2 as sys;

use super::{Model, guard, log};
use crate::backend::interface::{DecodedMedium, Piece, PreparedTile, TileShape};
use crate::lock::lock;

unsafe extern "C" {
    fn graphmill_vision_bytes(
        path: *const std::ffi::c_char,
        params: *const sys::mtmd_context_params,
    ) -> usize;
    fn graphmill_vision_load(
        path: *const std::ffi::c_char,
        model: *const sys::llama_model,
        params: *const sys::mtmd_context_params,
    ) -> *mut sys::mtmd_context;
    fn graphmill_vision_prepare(
        context: *const sys::mtmd_context,
        width: u32,
        height: u32,
        rgb: *const u8,
        chunks: *mut sys::mtmd_input_chunks,
        failed: i32,
    ) -> i32;
    fn graphmill_vision_prepare_sound(
        context: *const sys::mtmd_context,
        samples: *const f32,
        count: usize,
        chunks: *mut sys::mtmd_input_chunks,
        failed: i32,
    ) -> i32;
    fn graphmill_vision_encode(
        context: *mut sys::mtmd_context,
        chunk: *const sys::mtmd_input_chunk,
        failed: i32,
    ) -> i32;
}

/// Returns the parameters of a projector on this number of threads, and on a GPU if `use_gpu`. `gpu`
/// is that GPU's index in ggml; `None` for the first one.
pub(crate) fn projector_params(
    threads: u32,
    use_gpu: bool,
    gpu: Option<usize>,
) -> sys::mtmd_context_params {
    // SAFETY: returns plain numbers, null pointers and a static text.
    let mut params = unsafe { sys::mtmd_context_params_default() };
    params.use_gpu = use_gpu;
    if let Some(index) = gpu {
        // SAFETY: the index comes from ggml's own list of devices.
        params.device = unsafe { sys::ggml_backend_dev_get(index) };
    }
    params.print_timings = false;
    params.n_threads = threads as i32;
    params
}

/// Held while a projector is measured or loaded. libmtmd turns its log off for the whole process
/// while it measures one.
static LOADING: Mutex<()> = Mutex::new(());

/// A loaded projector, with the model that it belongs to.
pub(crate) struct Mtmd {
    raw: NonNull<sys::mtmd_context>,
    /// Held while something is encoded; libmtmd allows only one thread at a time.
    encoding: Mutex<()>,
    /// Width of the embedding of a position.
    pub(crate) width: usize,
    /// Dropped after the projector, which reads the model's vocabulary.
    _model: Arc<Model>,
}

// SAFETY: libmtmd ties a context to no thread.
unsafe impl Send for Mtmd {}
// SAFETY: what is called without `encoding` only reads the context: `mtmd_tokenize_from_parts` and
// the questions what the projector can do, as `mtmd.h` has it.
unsafe impl Sync for Mtmd {}

impl Mtmd {
    /// Returns the memory that a projector takes in bytes, without loading it; 0 if it cannot be
    /// loaded.
    pub(crate) fn bytes(path: &CStr, params: &sys::mtmd_context_params) -> u64 {
        let _loading = lock(&LOADING);
        // SAFETY: the path ends with a NUL, and `params` come from libmtmd's defaults.
        let bytes = unsafe { graphmill_vision_bytes(path.as_ptr(), params) };
        bytes as u64
    }

    /// Loads a projector for a model; `None` if libmtmd refuses, which it logs.
    pub(crate) fn load(
        model: Arc<Model>,
        path: &CStr,
        params: &sys::mtmd_context_params,
    ) -> Option<Self> {
        let width = model.input_width() as usize;
        let _loading = lock(&LOADING);
        let text = model.as_ptr().cast_const();
        // SAFETY: the path ends with a NUL, `params` come from libmtmd's defaults, and the model
        // lives as long as what is loaded.
        let raw = unsafe { graphmill_vision_load(path.as_ptr(), text, params) };
        Some(Self {
            raw: NonNull::new(raw)?,
            encoding: Mutex::default(),
            width,
            _model: model,
        })
    }

    /// Returns true if the projector reads images.
    pub(crate) fn reads_images(&self) -> bool {
        // SAFETY: the context is alive.
        unsafe { sys::mtmd_support_vision(self.raw.as_ptr()) }
    }

    /// Samples per second of sound; `None` if the projector does not read sound.
    pub(crate) fn sound_rate(&self) -> Option<NonZero<u32>> {
        // SAFETY: the context is alive.
        let rate = unsafe { sys::mtmd_get_audio_sample_rate(self.raw.as_ptr()) };
        u32::try_from(rate).ok().and_then(NonZero::new)
    }

    /// Converts an image or a sound into the parts that stand for it in a prompt.
    pub(crate) fn prepare(self: &Arc<Self>, decoded: &DecodedMedium) -> Result<Vec<Piece>, String> {
        let chunks = Chunks::new();
        let (context, list) = (self.raw.as_ptr(), chunks.0.as_ptr());
        let (status, heard) = log::listen(|| match decoded {
            // SAFETY: the context is alive and only read; a bitmap has three bytes for each pixel
            // of its width and height, and `list` is alive and not shared.
            DecodedMedium::Image(bitmap) => unsafe {
                graphmill_vision_prepare(
                    context,
                    bitmap.width(),
                    bitmap.height(),
                    bitmap.rgb().as_ptr(),
                    list,
                    guard::CAUGHT,
                )
            },
            // SAFETY: the context is alive and only read; there are as many samples as the slice
            // has, and `list` is alive and not shared.
            DecodedMedium::Sound(sound) => unsafe {
                let samples = sound.samples();
                graphmill_vision_prepare_sound(
                    context,
                    samples.as_ptr(),
                    samples.len(),
                    list,
                    guard::CAUGHT,
                )
            },
        });
        if status != 0 {
            return Err(heard.complaint_or("libmtmd cannot prepare it"));
        }
        chunks.read(self)
    }
}

impl Drop for Mtmd {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and nothing uses it after this.
        unsafe { sys::mtmd_free(self.raw.as_ptr()) }
    }
}

/// An owned list of libmtmd's chunks.
struct Chunks(NonNull<sys::mtmd_input_chunks>);

impl Chunks {
    fn new() -> Self {
        // SAFETY: creates an empty list.
        let raw = unsafe { sys::mtmd_input_chunks_init() };
        Self(NonNull::new(raw).expect("C++ allocates or throws"))
    }

    fn read(&self, mtmd: &Arc<Mtmd>) -> Result<Vec<Piece>, String> {
        let list = self.0.as_ptr();
        // SAFETY: the list is alive.
        let count = unsafe { sys::mtmd_input_chunks_size(list) };
        let mut read = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the index is below the list's length, and the chunk lives as long as it.
            let (chunk, kind) = unsafe {
                let chunk = sys::mtmd_input_chunks_get(list, index);
                (chunk, sys::mtmd_input_chunk_get_type(chunk))
            };
            if kind == sys::MTMD_INPUT_CHUNK_TYPE_TEXT {
                let mut length = 0;
                // SAFETY: the chunk is alive and has as many tokens as it says.
                let tokens = unsafe {
                    let tokens = sys::mtmd_input_chunk_get_tokens_text(chunk, &raw mut length);
                    if length == 0 {
                        &[][..]
                    } else {
                        slice::from_raw_parts(tokens, length)
                    }
                };
                read.push(Piece::Text(tokens.to_vec()));
                continue;
            }
            // SAFETY: the chunk is alive; the copy belongs to whoever asked for it.
            let copy = unsafe { sys::mtmd_input_chunk_copy(chunk) };
            let mut chunk = Chunk {
                raw: NonNull::new(copy).expect("C++ allocates or throws"),
                shape: TileShape {
                    is_sound: kind == sys::MTMD_INPUT_CHUNK_TYPE_AUDIO,
                    ..TileShape::default()
                },
                mtmd: Arc::clone(mtmd),
            };
            chunk.shape = chunk.find_shape()?;
            read.push(Piece::Tile(Box::new(chunk)));
        }
        Ok(read)
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // SAFETY: the list is alive, and nothing uses it or its chunks after this.
        unsafe { sys::mtmd_input_chunks_free(self.0.as_ptr()) }
    }
}

/// An image or a sound, or a tile of one, scaled for its projector.
struct Chunk {
    raw: NonNull<sys::mtmd_input_chunk>,
    shape: TileShape,
    mtmd: Arc<Mtmd>,
}

// SAFETY: a chunk is plain data, and tied to no thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Reads the shape from libmtmd. The error says why batches cannot have this chunk.
    fn find_shape(&self) -> Result<TileShape, String> {
        let (context, chunk) = (self.mtmd.raw.as_ptr(), self.raw.as_ptr());
        // SAFETY: the context and the chunk are alive and only read.
        let (tokens, span, looks_ahead, is_grid) = unsafe {
            (
                sys::mtmd_input_chunk_get_n_tokens(chunk),
                sys::mtmd_input_chunk_get_n_pos(chunk),
                sys::mtmd_decode_use_non_causal(context, chunk),
                sys::mtmd_decode_use_mrope(context),
            )
        };
        let is_sound = self.shape.is_sound;
        // A sound is counted as tokens are, even if the model counts images by lines and columns.
        let is_grid = is_grid && !is_sound;
        let shape = TileShape {
            positions: u32::try_from(tokens).unwrap_or(0),
            columns: if is_grid { self.columns(tokens) } else { None },
            looks_ahead,
            is_sound,
        };
        let is_known = is_grid == shape.columns.is_some();
        if shape.positions == 0 || !is_known || i64::from(span) != i64::from(shape.span()) {
            return Err(format!(
                "it has {tokens} embeddings at {span} positions, in an unknown order"
            ));
        }
        Ok(shape)
    }

    /// Returns the number of columns if the embeddings lie line by line; `None` otherwise.
    fn columns(&self, embeddings: usize) -> Option<NonZero<u32>> {
        // SAFETY: the chunk is alive; what it has of an image lives as long.
        let image = unsafe { sys::mtmd_input_chunk_get_tokens_image(self.raw.as_ptr()) };
        let image = NonNull::new(image.cast_mut())?;
        // SAFETY: the image is alive, and has so many embeddings.
        let place = |begin: i32, index: usize| unsafe {
            sys::mtmd_image_tokens_get_decoder_pos(image.as_ptr(), begin, index)
        };
        let first_line = (0..embeddings).take_while(|index| place(0, *index).y == 0);
        let columns = NonZero::new(u32::try_from(first_line.count()).ok()?)?;
        let in_lines = |begin: u32, index: usize| {
            let found = place(begin as i32, index);
            let (line, column) = (index as u32 / columns, index as u32 % columns);
            (found.t, found.y, found.x, found.z) == (begin, begin + line, begin + column, 0)
        };
        let all_in_lines = (0..embeddings).all(|index| in_lines(0, index) && in_lines(1, index));
        all_in_lines.then_some(columns)
    }
}

impl PreparedTile for Chunk {
    fn shape(&self) -> TileShape {
        self.shape
    }

    fn encode(&self) -> Result<Vec<f32>, String> {
        let _encoding = lock(&self.mtmd.encoding);
        let context = self.mtmd.raw.as_ptr();
        let (status, heard) = log::listen(|| {
            // SAFETY: the context and the chunk are alive, and nobody else encodes meanwhile.
            unsafe { graphmill_vision_encode(context, self.raw.as_ptr(), guard::CAUGHT) }
        });
        if status != 0 {
            return Err(heard.complaint_or("libmtmd cannot encode it"));
        }
        let count = self.shape.positions as usize * self.mtmd.width;
        // SAFETY: after a chunk was encoded, there are as many numbers as it has positions, each of
        // the model's width, until the next one is.
        let embeddings = unsafe {
            let embeddings = NonNull::new(sys::mtmd_get_output_embd(context));
            let embeddings = embeddings.ok_or("libmtmd gave no embeddings")?;
            slice::from_raw_parts(embeddings.as_ptr(), count)
        };
        Ok(embeddings.to_vec())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the chunk is alive, and nothing uses it after this.
        unsafe { sys::mtmd_input_chunk_free(self.raw.as_ptr()) }
    }
}
