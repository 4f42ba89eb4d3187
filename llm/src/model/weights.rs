//! Types of a model's weights, and conversion of files to other types.

use std::path::Path;
use std::sync::Mutex;

use crate::lock::lock;
use crate::protocol::LoadError;

/// Types to which files can be quantized without an importance matrix, with llama.cpp's numbers
/// (`general.file_type`).
pub const TYPES: [(&str, u32); 26] = [
    ("F32", 0),
    ("F16", 1),
    ("BF16", 32),
    ("Q8_0", 7),
    ("Q6_K", 18),
    ("Q5_K_M", 17),
    ("Q5_K_S", 16),
    ("Q5_1", 9),
    ("Q5_0", 8),
    ("Q4_K_M", 15),
    ("Q4_K_S", 14),
    ("Q4_1", 3),
    ("Q4_0", 2),
    ("IQ4_NL", 25),
    ("IQ4_XS", 30),
    ("MXFP4_MOE", 38),
    ("Q3_K_L", 13),
    ("Q3_K_M", 12),
    ("Q3_K_S", 11),
    ("IQ3_M", 27),
    ("IQ3_S", 26),
    ("IQ3_XS", 22),
    ("Q2_K", 10),
    ("Q2_0", 41),
    ("TQ2_0", 37),
    ("TQ1_0", 36),
];

/// Returns the name of the type that most weights of a file have; `None` if the file does not say,
/// or if the type is not in [`TYPES`].
///
/// # Errors
/// [`LoadError`] for a file that cannot be read or is not a model.
pub fn type_of(path: &Path) -> Result<Option<&'static str>, LoadError> {
    #[cfg(feature = "llama")]
    let number = crate::backend::llama::file_type(path)?;
    #[cfg(not(feature = "llama"))]
    let number: Option<u32> = {
        let _ = path;
        None
    };
    let known = TYPES.iter().find(|(_, known)| Some(*known) == number);
    Ok(known.map(|(name, _)| *name))
}

/// Parameters of a file to be written.
#[derive(Clone, Copy, Debug)]
pub struct Quantizing {
    /// Number of the type, as in [`TYPES`].
    pub number: u32,
    /// Number of threads that compute.
    pub threads: u32,
    /// Allows weights that are already quantized to be quantized again, which costs quality.
    pub again: bool,
}

/// Number of the tensor that is being written, and number of tensors. A process writes one file at
/// a time.
static PLACE: Mutex<(u32, u32)> = Mutex::new((0, 0));

/// Returns the number of tensors written so far, and of all tensors; zeros before the first.
pub fn quantized() -> (u32, u32) {
    let (number, all) = *lock(&PLACE);
    (number.saturating_sub(1), all)
}

/// Notes that the tensor with this number of `all` is being written.
#[cfg(feature = "llama")]
pub(crate) fn reached(number: u32, all: u32) {
    *lock(&PLACE) = (number, all);
}

/// Writes the model in `input` to `output` with weights of another type. A damaged file can end the
/// process.
///
/// # Errors
/// [`LoadError`] with llama.cpp's reason; an incomplete `output` may be left.
pub fn quantize(input: &Path, output: &Path, wanted: &Quantizing) -> Result<(), LoadError> {
    #[cfg(feature = "llama")]
    return crate::backend::llama::check_header(input)
        .and_then(|()| crate::backend::llama::quantize(input, output, wanted));
    #[cfg(not(feature = "llama"))]
    {
        let _ = (output, wanted);
        Err(LoadError::model(
            input,
            "this program was built without llama.cpp, which quantizes",
        ))
    }
}
