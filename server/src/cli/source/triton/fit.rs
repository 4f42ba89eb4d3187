//! Comparison of configurations of ONNX models with the tensors in the files of their versions.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    rc::Rc,
};

use graphmill_calculators::tensor::{FileTensor, shown};
use graphmill_grammar::{ast, suggest};

use super::{
    ModelFolder, Signature, TritonReader,
    model::{DataType, TensorConfig},
    place::{messages, place},
};
use crate::cli::source::onnx;

/// Maximum number of names that a message lists.
const LISTED: usize = 10;

impl TritonReader<'_> {
    fn signature(&mut self, file: &Path) -> Signature {
        let known = self.signatures.entry(file.to_owned());
        let known = known.or_insert_with(|| onnx::tensors(file).map(Rc::new));
        known.clone()
    }

    /// Adds inputs and outputs that the configuration leaves out, as in the newest version.
    pub(super) fn complete(&mut self, model: &mut ModelFolder) {
        let Some(newest) = model.versions.last() else {
            return;
        };
        if model.config.sides().iter().all(|(_, all)| !all.is_empty()) {
            return;
        }
        // Errors of the file are reported when it is compared.
        let Ok(signature) = self.signature(&model.file(*newest)) else {
            return;
        };
        let batch = usize::from(model.config.max_batch_size > 0);
        let sides = [&mut model.config.input, &mut model.config.output];
        for (tensors, known) in sides.into_iter().zip(&*signature) {
            if tensors.is_empty() {
                let told = known.iter().filter_map(|it| Some((it, it.shape.as_ref()?)));
                let told = told.map(|(it, shape)| TensorConfig {
                    name: it.name.clone(),
                    data_type: DataType::from_datatype(it.datatype),
                    dims: shape.get(batch..).unwrap_or_default().to_vec(),
                    ..TensorConfig::default()
                });
                tensors.extend(told);
            }
        }
    }

    /// Refuses a configuration that contradicts the file of a version.
    pub(super) fn compare(&mut self, model: &ModelFolder, version: u64) {
        let path = model.file(version);
        if !self.compared.insert(path.clone()) {
            return;
        }
        let signature = match self.signature(&path) {
            Ok(signature) => signature,
            Err(why) => return self.wrong(model.tree.head(), why),
        };
        let file = format!("`{version}/{}`", model.file_name());
        for ((side, tensors), known) in model.config.sides().into_iter().zip(&*signature) {
            let by_name: HashMap<&str, &FileTensor> =
                known.iter().map(|it| (it.name.as_str(), it)).collect();
            let mut places = messages(&model.tree, side);
            for tensor in tensors {
                let message = places.next();
                let (place, why) = match by_name.get(tensor.name.as_str()) {
                    None => (
                        field(model, message, "name"),
                        format!("has no {side} `{}`{}", tensor.name, hint(tensor, known)),
                    ),
                    Some(known) => match difference(model, tensor, known) {
                        None => continue,
                        Some(("max_batch_size", why)) => (model.place("max_batch_size"), why),
                        Some((name, why)) => (field(model, message, name), why),
                    },
                };
                self.wrong(place, format!("{file} {why}"));
            }
        }
        let given: HashSet<&str> = model.config.input.iter().map(|it| &*it.name).collect();
        for unfed in signature[0].iter().filter(|it| !given.contains(&*it.name)) {
            let why = format!("{file} takes `{}`, which is missing in `input`", unfed.name);
            self.wrong(model.place("input"), why);
        }
    }
}

/// Returns the place of a tensor's field, or of the model if the tensor is not in the
/// configuration.
fn field(
    model: &ModelFolder,
    message: Option<&ast::Message>,
    name: &str,
) -> graphmill_grammar::Span {
    message.map_or_else(|| model.tree.head(), |it| place(it, name))
}

fn hint(tensor: &TensorConfig, known: &[FileTensor]) -> String {
    let names = || known.iter().map(|it| it.name.as_str());
    if let Some(near) = suggest::nearest(&tensor.name, names()) {
        return format!("; did you mean `{near}`?");
    }
    let some: Vec<String> = names().take(LISTED).map(|it| format!("`{it}`")).collect();
    format!("; it has {}", some.join(", "))
}

/// Returns the first field in which a tensor differs from the file, with the difference.
fn difference(
    model: &ModelFolder,
    tensor: &TensorConfig,
    known: &FileTensor,
) -> Option<(&'static str, String)> {
    let name = &tensor.name;
    let given = tensor.data_type.datatype()?;
    if given != known.datatype {
        let why = format!("has `{name}` as {}, not as {given}", known.datatype);
        return Some(("data_type", why));
    }
    let shape = known.shape.as_ref()?;
    if model.config.max_batch_size > 0 && shape.first() != Some(&-1) {
        let why = format!(
            "has `{name}` in the shape {}, which does not begin with a dimension of variable \
             length: `max_batch_size` needs one",
            shown(shape)
        );
        return Some(("max_batch_size", why));
    }
    let whole = model.config.shape(tensor);
    let mut pairs = whole.iter().zip(shape);
    // A dimension that the file leaves open matches any length.
    if whole.len() == shape.len() && pairs.all(|(own, known)| *known == -1 || own == known) {
        return None;
    }
    let behind = if model.config.max_batch_size > 0 {
        " after the batch dimension"
    } else {
        ""
    };
    let why = format!(
        "has `{name}` in the shape {}, but `dims`{behind} are {}",
        shown(shape),
        shown(&tensor.dims)
    );
    Some(("dims", why))
}
