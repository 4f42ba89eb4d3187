//! The graph of an ensemble, with a node for each step.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    rc::Rc,
};

use graphmill_calculators::tensor::{Datatype, shown};
use graphmill_grammar::{Span, ast};

use super::{
    Backend, FILE, ModelFolder, TritonReader, graph,
    graph::PlacedModel,
    model::{EnsembleScheduling, EnsembleStep, ModelConfig, Pair, TensorConfig},
    place::{messages, place},
    whole,
};
use crate::{
    cli::source::tensors::{Streams, TensorStreams},
    config,
};

/// The type and shape of a tensor in an ensemble.
struct TensorType {
    datatype: Option<Datatype>,
    shape: Vec<i64>,
}

impl TensorType {
    fn new(config: &ModelConfig, tensor: &TensorConfig) -> Self {
        Self {
            datatype: tensor.data_type.datatype(),
            shape: config.shape(tensor),
        }
    }

    /// Returns true if both have the same type and dimensions; -1 matches any length.
    fn fits(&self, other: &Self) -> bool {
        let mut lengths = self.shape.iter().zip(&other.shape);
        self.datatype == other.datatype
            && self.shape.len() == other.shape.len()
            && lengths.all(|(one, other)| one == other || [*one, *other].contains(&-1))
    }

    fn shown(&self) -> String {
        let datatype = self.datatype.map_or("INVALID", Datatype::name);
        format!("{datatype} of the shape {}", shown(&self.shape))
    }
}

impl TritonReader<'_> {
    /// Writes the graph of an ensemble; `None` if there are errors.
    pub(super) fn ensemble(&mut self, ensemble: &ModelFolder) -> Option<String> {
        let config = &ensemble.config;
        let EnsembleScheduling { step: steps } = &config.ensemble_scheduling;
        if steps.is_empty() {
            let at = ensemble.place("ensemble_scheduling");
            self.wrong(at, "an ensemble needs a `step` for each of its models");
            return None;
        }
        let scheduling = messages(&ensemble.tree, "ensemble_scheduling");
        let places = scheduling.flat_map(|it| messages(it, "step"));
        let steps: Vec<(&EnsembleStep, &ast::Message)> = steps.iter().zip(places).collect();
        let mut models = Vec::new();
        for (step, at) in &steps {
            let (model, version) = self.step(&ensemble.folder, step, at.head())?;
            let most = model.config.max_batch_size;
            if most > 0 && most < config.max_batch_size {
                let name = &step.model_name;
                let why = format!("`max_batch_size` is above the limit {most} of `{name}`");
                self.wrong(ensemble.place("max_batch_size"), why);
            }
            self.compare(&model, version);
            models.push((model, version));
        }
        let mut carried: HashMap<&str, TensorType> = HashMap::new();
        for tensor in &config.input {
            carried.insert(&tensor.name, TensorType::new(config, tensor));
        }
        // Steps can be in any order, so all outputs are collected before inputs are checked.
        for ((step, at), (model, _)) in steps.iter().zip(&models) {
            for (pair, at) in step.output_map.iter().zip(messages(at, "output_map")) {
                let Some(tensor) = self.find("output", step, model, pair, at.head()) else {
                    continue;
                };
                let given = TensorType::new(&model.config, tensor);
                if carried.insert(&pair.value, given).is_some() {
                    let why = format!("`{}` is produced more than once", pair.value);
                    self.wrong(at.head(), why);
                }
            }
        }
        for ((step, at), (model, _)) in steps.iter().zip(&models) {
            for (pair, at) in step.input_map.iter().zip(messages(at, "input_map")) {
                if let Some(tensor) = self.find("input", step, model, pair, at.head()) {
                    let taken = TensorType::new(&model.config, tensor);
                    let name = format!("`{}` takes `{}`", step.model_name, pair.key);
                    let given = carried.get(&*pair.value);
                    self.fit(given, &taken, &pair.value, &name, at.head());
                }
            }
            let fed: HashSet<&str> = step.input_map.iter().map(|it| &*it.key).collect();
            let mut inputs = model.config.input.iter();
            if let Some(unfed) = inputs.find(|it| !fed.contains(&*it.name)) {
                let (name, unfed) = (&step.model_name, &unfed.name);
                let why = format!("`input_map` of `{name}` has no `{unfed}`");
                self.wrong(at.head(), why);
            }
        }
        for (tensor, at) in config.output.iter().zip(messages(&ensemble.tree, "output")) {
            let taken = TensorType::new(config, tensor);
            let name = format!("the output `{}` is", tensor.name);
            let at = place(at, "dims");
            self.fit(carried.get(&*tensor.name), &taken, &tensor.name, &name, at);
        }
        let mut streams = Streams::default();
        let mut wired = |map: &[Pair]| -> TensorStreams {
            let pairs = map.iter();
            let pairs = pairs.map(|it| (it.key.clone(), streams.name(&it.value)));
            pairs.collect()
        };
        let nodes = steps.iter().zip(&models);
        let nodes = nodes.map(|((step, _), (model, version))| PlacedModel {
            model: &model.config,
            file: whole(&model.file(*version)),
            inputs: wired(&step.input_map),
            outputs: wired(&step.output_map),
        });
        let nodes: Vec<PlacedModel<'_>> = nodes.collect();
        let file = ensemble.folder.join(FILE);
        Some(graph::text(&file, config, streams, &nodes))
    }

    /// Finds the tensor of a step's model that a map entry names.
    fn find<'a>(
        &mut self,
        side: &str,
        step: &EnsembleStep,
        model: &'a ModelFolder,
        pair: &Pair,
        at: Span,
    ) -> Option<&'a TensorConfig> {
        let tensors = match side {
            "input" => &model.config.input,
            _ => &model.config.output,
        };
        let found = tensors.iter().find(|tensor| tensor.name == pair.key);
        if found.is_none() {
            let name = &step.model_name;
            self.wrong(at, format!("`{name}` has no {side} `{}`", pair.key));
        }
        found
    }

    /// Refuses a tensor that does not exist, or does not fit the tensor that is needed.
    fn fit(
        &mut self,
        given: Option<&TensorType>,
        taken: &TensorType,
        name: &str,
        what: &str,
        at: Span,
    ) {
        match given {
            None => self.wrong(at, format!("no input and no step produces `{name}`")),
            Some(given) if !given.fits(taken) => {
                let (taken, given) = (taken.shown(), given.shown());
                self.wrong(at, format!("{what} {taken}, but `{name}` is {given}"));
            }
            Some(_) => {}
        }
    }

    /// Reads the model of a step, in the version that it names or else the newest.
    fn step(
        &mut self,
        ensemble: &Path,
        step: &EnsembleStep,
        at: Span,
    ) -> Option<(Rc<ModelFolder>, u64)> {
        let (name, version) = (&step.model_name, step.model_version);
        let folder = ensemble.parent().unwrap_or(Path::new("")).join(name);
        if config::wrong_name(name).is_some() || !super::is_model(&folder) {
            self.wrong(at, format!("the repository has no model `{name}`"));
            return None;
        }
        let model = if let Some(known) = self.models.get(name) {
            known.clone()?
        } else {
            let read = self.read(&folder, name, None).map(Rc::new);
            self.models.insert(name.clone(), read.clone());
            read?
        };
        if model.backend != Backend::Onnx {
            let message = format!(
                "`{name}` is not an ONNX model: write a graph for ensembles with other models"
            );
            self.wrong(at, message);
            return None;
        }
        let versions = &model.versions;
        let found = match u64::try_from(version) {
            Ok(wanted) => versions.contains(&wanted).then_some(wanted),
            Err(_) => versions.last().copied(),
        };
        if found.is_none() {
            let message = format!("`{name}` has no version {version} that is served");
            self.wrong(at, message);
        }
        Some((model, found?))
    }
}
