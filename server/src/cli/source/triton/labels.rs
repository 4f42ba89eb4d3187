//! Names of classes, in files beside a configuration.

use std::path::{Component, Path};

use graphmill_engine::read_at_most;

use super::{MAX_BYTES, Model, Reader};

impl Reader<'_> {
    /// Reads the names of the classes of outputs, one per line.
    pub(super) fn read_labels(&mut self, model: &mut Model) {
        let Model { folder, config, .. } = &mut *model;
        let mut wrong = Vec::new();
        for tensor in &mut config.output {
            if tensor.label_filename.is_empty() {
                continue;
            }
            match lines(folder, Path::new(&tensor.label_filename)) {
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

/// Returns the lines of a file in a folder.
fn lines(folder: &Path, file: &Path) -> Result<Vec<String>, String> {
    let mut parts = file.components();
    if !parts.all(|it| matches!(it, Component::Normal(_))) {
        return Err("leads out of the folder of the model".to_owned());
    }
    let bytes = read_at_most(&folder.join(file), MAX_BYTES as u64)
        .map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "names a file that is not UTF-8".to_owned())?;
    Ok(text.lines().map(str::to_owned).collect())
}
