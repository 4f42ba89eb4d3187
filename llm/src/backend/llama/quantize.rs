//! Quantizes models by llama.cpp.

use std::path::Path;

use super::ffi;
use super::model::c_path;
use super::process::process;
use crate::model::weights::{Quantizing, reached};
use crate::protocol::LoadError;

/// Writes the quantized model to `output`, which should not exist yet.
pub(crate) fn quantize(input: &Path, output: &Path, wanted: &Quantizing) -> Result<(), LoadError> {
    process(input)?;
    let failed = |message: String| LoadError::model(input, message);
    let (from, to) = (c_path(input)?, c_path(output)?);
    let (done, heard) = ffi::listen_with(
        |line| {
            if let Some((done, all)) = place(line) {
                reached(done, all);
            }
        },
        || ffi::quantize(&from, &to, wanted.number, wanted.threads, wanted.again),
    );
    if done {
        return Ok(());
    }
    let why = heard.errors.last().map(String::as_str);
    let why = why.and_then(|line| line.rsplit_once("failed to quantize: "));
    Err(failed(match why {
        Some((_, why)) => why.to_owned(),
        None => heard.complaint_or("llama.cpp gave no reason"),
    }))
}

/// Parses the numbers in a line such as `[   3/ 291] blk.0.attn_k.weight - [ 2048, 256, 1, 1], type
/// = f16`.
fn place(line: &str) -> Option<(u32, u32)> {
    let (numbers, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (done, all) = numbers.split_once('/')?;
    Some((done.trim().parse().ok()?, all.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn progress_is_in_the_log() {
        let line =
            "[   3/ 291] blk.0.attn_k.weight - [ 2048,   256,     1,     1], type =    f16, ";
        assert_eq!(place(line), Some((3, 291)));
        assert_eq!(place("llama_model_loader: - type  f32:  [1]"), None);
    }
}
