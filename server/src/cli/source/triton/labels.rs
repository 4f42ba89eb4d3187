//! Names of classes, in files beside a configuration.

use std::{
    io,
    path::{Component, Path},
};

use graphmill_engine::read_at_most;

use super::{MAX_BYTES, Model, Reader, model::TensorConfig};

/// Maximum number of names of a file. No model has as many classes.
const MAX_LABELS: usize = 65_536;

impl Reader<'_> {
    /// Reads the names of the classes of outputs, one per line.
    pub(super) fn read_labels(&mut self, model: &mut Model) {
        let Model { folder, config, .. } = &mut *model;
        let mut wrong = Vec::new();
        for tensor in &mut config.output {
            if tensor.label_filename.is_empty() {
                continue;
            }
            match read(folder, tensor) {
                Ok(labels) => tensor.labels = labels,
                Err(why) => wrong.push(format!("`label_filename` of `{}` {why}", tensor.name)),
            }
        }
        let place = model.place("output");
        for message in wrong {
            self.wrong(place, message);
        }
    }
}

/// Returns the names in the file of an output. Links out of the folder are not followed.
fn read(folder: &Path, tensor: &TensorConfig) -> Result<Vec<String>, String> {
    const OUTSIDE: &str = "leads out of the folder of the model";
    let file = Path::new(&tensor.label_filename);
    let mut parts = file.components();
    if !parts.all(|it| matches!(it, Component::Normal(_))) {
        return Err(OUTSIDE.to_owned());
    }
    let unread = |error: io::Error| format!("cannot be read: {error}");
    let folder = folder.canonicalize().map_err(unread)?;
    let file = folder.join(file).canonicalize().map_err(unread)?;
    if !file.starts_with(&folder) {
        return Err(OUTSIDE.to_owned());
    }
    let bytes = read_at_most(&file, MAX_BYTES as u64).map_err(unread)?;
    let text = String::from_utf8(bytes).map_err(|_| "names a file that is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let classes = count_classes(&tensor.dims).unwrap_or(MAX_LABELS);
    let is_odd = |it: char| it.is_control() && it != '\t';
    let mut labels = Vec::new();
    for line in text.lines() {
        if labels.len() == classes.min(MAX_LABELS) {
            let most = labels.len();
            return Err(format!(
                "names a file of more than {most} lines, a line for each class"
            ));
        }
        if line.contains(is_odd) {
            let number = labels.len() + 1;
            return Err(format!(
                "names a file with a control character in line {number}"
            ));
        }
        labels.push(line.to_owned());
    }
    Ok(labels)
}

/// Returns the maximum number of classes of an output of this shape. `None` if the shape does not
/// say it.
fn count_classes(dims: &[i64]) -> Option<usize> {
    let lengths = dims.iter().map(|length| usize::try_from(*length).ok());
    let product = lengths.reduce(|product, length| product?.checked_mul(length?));
    product.flatten()
}
