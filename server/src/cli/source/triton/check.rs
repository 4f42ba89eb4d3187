//! Refusal of configuration values that have another meaning here, or none.

use graphmill_calculators::tensor::batch::{Batching, BatchingLevel};
use graphmill_engine::shortened;
use graphmill_grammar::{Span, ast};

use super::{
    Backend, FILE, ModelFolder, TritonReader,
    model::{InstanceKind, MapEntry, TensorConfig},
    place::{messages, place},
};

/// Maximum number of priority levels. A larger number is reported elsewhere.
const LEVELS: u32 = 1 << 10;

impl TritonReader<'_> {
    /// Refuses values that have another meaning here, or none.
    pub(super) fn check(&mut self, model: &ModelFolder) {
        let (config, is_onnx) = (&model.config, model.backend == Backend::Onnx);
        let at_groups = model.place("instance_group");
        for group in &config.instance_group {
            if is_onnx && (group.kind == InstanceKind::KindGpu || !group.gpus.is_empty()) {
                let named = match group.name.as_str() {
                    "" => String::new(),
                    name => format!(" of `{name}`"),
                };
                self.wrong(at_groups, format!("`kind`{named} can only be `KIND_CPU` or `KIND_AUTO`: ONNX models are computed on the CPU"));
            }
        }
        if is_onnx && config.max_batch_size == 0 && !config.instance_group.is_empty() {
            let message = "`instance_group` has no effect without `max_batch_size`: requests are computed in parallel without it";
            self.warn(at_groups, message);
        }
        if model.backend == Backend::Llama {
            if config.response_cache.enable {
                let why = "`response_cache` is for tensors: texts are sampled anew each time";
                self.wrong(model.place("response_cache"), why);
            }
            return;
        }
        self.check_batching(model);
        for (side, tensors) in config.sides() {
            if tensors.is_empty() {
                let why = "needs a name, a data type and dimensions";
                let message = format!("`{side}` is missing: each {side} {why}");
                self.wrong(model.tree.head(), message);
            }
            let mut messages = messages(&model.tree, side);
            for tensor in tensors {
                let place = messages.next().map(ast::Message::head);
                let place = place.unwrap_or_else(|| model.place(side));
                self.check_tensor(place, side, tensor);
            }
        }
    }

    /// Refuses parameters whose names are not option names. A configuration in a request must not
    /// name files.
    pub(super) fn check_names(&mut self, model: &ModelFolder, is_given: bool) {
        if model.backend != Backend::Llama {
            return;
        }
        let at = model.place("parameters");
        let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        for MapEntry { key, value } in &model.config.parameters {
            let shown = shortened(key, 100);
            if key.is_empty() || !key.chars().all(is_part) {
                self.wrong(at, format!("`parameters`: unknown option `{shown}`"));
            } else if is_given && value.string_value.contains('/') {
                let message = format!(
                    "the parameter `{shown}` contains `/`: only `{FILE}` may contain paths"
                );
                self.wrong(at, message);
            }
        }
    }

    fn check_tensor(&mut self, place: Span, side: &str, tensor: &TensorConfig) {
        let name = &tensor.name;
        if name.is_empty() {
            self.wrong(place, format!("an {side} has no `name`"));
        }
        if tensor.data_type.datatype().is_none() {
            self.wrong(place, format!("the {side} `{name}` has no `data_type`"));
        }
        if side == "input" && !tensor.label_filename.is_empty() {
            self.wrong(place, "`label_filename` is for outputs");
        }
        match tensor.format.order() {
            Some(_) if side == "output" => {
                self.wrong(place, "`format` is allowed only for inputs");
            }
            Some(_) if tensor.dims.len() != 3 => {
                let count = tensor.dims.len();
                let why = format!("`format` is for images with 3 `dims`, but `{name}` has {count}");
                self.wrong(place, why);
            }
            _ => {}
        }
        if tensor.dims.iter().any(|dim| *dim < -1 || *dim == 0) {
            let why = format!("a dimension of the {side} `{name}` is neither -1 nor above 0");
            self.wrong(place, why);
        }
    }

    /// Refuses batching options that the batching node would refuse.
    fn check_batching(&mut self, model: &ModelFolder) {
        let (config, rules) = (&model.config, &model.config.dynamic_batching);
        if config.max_batch_size == 0 || model.backend != Backend::Onnx {
            return;
        }
        let levels = rules.priority_levels.clamp(1, LEVELS);
        let batching = Batching {
            preferred_batch_size: rules.preferred_batch_size.clone(),
            max_queue_delay_microseconds: rules.max_queue_delay_microseconds,
            instances: config.instances().max(1),
            default_priority_level: rules.default_priority_level.max(1),
            levels: vec![BatchingLevel::default(); levels as usize],
            ..Batching::with_max_batch_size(config.max_batch_size)
        };
        let inside = messages(&model.tree, "dynamic_batching").next();
        for (field, why) in batching.problems() {
            let of = match field {
                "instances" => "instance_group",
                other => other,
            };
            let inside = inside.filter(|it| it.fields_named(of).next().is_some());
            let place = inside.map_or_else(|| model.place(of), |it| place(it, of));
            self.wrong(place, format!("`{of}` {why}"));
        }
    }
}
