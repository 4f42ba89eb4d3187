//! Names of classes, in files beside a configuration.

use std::{
    io,
    path::{Component, Path},
};

use graphmill_engine::read_at_most;

use super::{MAX_BYTES, ModelFolder, TritonReader};

/// Maximum number of names of a file. No model has as many classes.
const MAX_LABELS: usize = 65_536;

impl TritonReader<'_> {
    /// Reads the names of the classes of outputs, one per line. Warns if an output has another
    /// number of classes, or a class an empty name.
    pub(super) fn read_labels(&mut self, model: &mut ModelFolder) {
        let ModelFolder { folder, config, .. } = &mut *model;
        let (mut wrong, mut odd) = (Vec::new(), Vec::new());
        let has_batch = config.max_batch_size > 0;
        for tensor in &mut config.output {
            if tensor.label_filename.is_empty() {
                continue;
            }
            match lines(folder, Path::new(&tensor.label_filename)) {
                Ok(labels) => {
                    let why = oddity(&labels, &tensor.dims, has_batch);
                    let name = &tensor.name;
                    odd.extend(why.map(|why| format!("`label_filename` of `{name}` {why}")));
                    tensor.labels = labels;
                }
                Err(why) => wrong.push(format!("`label_filename` of `{}` {why}", tensor.name)),
            }
        }
        let place = model.place("output");
        for message in wrong {
            self.wrong(place, message);
        }
        for message in odd {
            self.warn(place, message);
        }
    }
}

/// Describes what is odd about the names of an output's classes.
fn oddity(labels: &[String], dims: &[i64], has_batch: bool) -> Option<String> {
    if let Some(at) = labels.iter().position(|label| label.trim().is_empty()) {
        return Some(format!("names a file whose line {} is empty", at + 1));
    }
    // Without a batch dimension, the first of several dimensions counts rows.
    let row = match dims {
        [_, row @ ..] if !has_batch && !row.is_empty() => row,
        row => row,
    };
    let known = |classes: i64, dim: &i64| classes.checked_mul(*dim).filter(|_| *dim > 0);
    let classes = row.iter().try_fold(1, known)?;
    let count = labels.len();
    (i64::try_from(count) != Ok(classes))
        .then(|| format!("names a file with {count} names, but the output has {classes} classes"))
}

/// Returns the lines of a file in a folder. Links out of the folder are not followed.
fn lines(folder: &Path, file: &Path) -> Result<Vec<String>, String> {
    const OUTSIDE: &str = "leads out of the folder of the model";
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
    let is_odd = |it: char| it.is_control() && it != '\t';
    let mut labels = Vec::new();
    for line in text.lines() {
        if labels.len() == MAX_LABELS {
            return Err(format!("names a file of more than {MAX_LABELS} lines"));
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
