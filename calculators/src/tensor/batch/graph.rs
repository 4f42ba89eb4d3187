//! A node of a graph as a model: each batch is a run of a graph of that node alone.

use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use graphmill_engine::{
    Contract, Environment, Error, FileSource, Files, Packet, Plan, Registry, Resource, Result,
    RunCx, Session, SidePackets, TrackedFiles, TypeInfo, register_async,
};
use graphmill_grammar::{SourceMap, diag, parse_graph};
use schemars::JsonSchema;
use serde::Deserialize;

use super::node::DynamicBatch;
use super::source::BatchedModel;
use crate::tensor::{Tensor, TensorInfo, TensorModel};

/// What the graph of a node is called in diagnostics.
const FILE: &str = "model.pbtxt";

/// What a `DynamicBatchCalculator` stands for: a node as a model, whose calls are batched. Each
/// batch is a run of the graph in the options.
///
/// ```pbtxt
/// input_stream: "pixels"
/// output_stream: "scores"
/// node {
///   calculator: "BatchedNodeCalculator"
///   input_side_packet: "BATCHER:batcher"
///   input_stream: "pixels"
///   output_stream: "scores"
///   node_options {
///     [type.googleapis.com/BatchedNodeCalculatorOptions] {
///       model {
///         label: "PassThroughCalculator"
///         graph: "input_stream: 'x' output_stream: 'y' node { calculator: 'PassThroughCalculator' input_stream: 'x' output_stream: 'y' }"
///       }
///       max_batch_size: 8
///     }
///   }
/// }
/// ```
#[derive(Debug)]
pub struct NodeModel {
    plan: Arc<Plan>,
}

/// The options of [`NodeModel`], as `DynamicBatchCalculator` writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeModelOptions {
    /// A graph of one node whose streams carry tensors.
    pub graph: String,
    /// What messages and metrics call it: the node's calculator.
    pub label: String,
}

/// What decides what a [`NodeModel`] is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeModelSpec {
    graph: String,
    label: String,
    /// Where its files are.
    base: PathBuf,
}

impl NodeModelSpec {
    /// Compiles the graph.
    fn compile(&self, files: &dyn FileSource, loads: bool) -> Result<Arc<Plan>> {
        let mut sources = SourceMap::new();
        let own = Arc::new(TrackedFiles::new(Files::new(&self.base)));
        // Nodes and subgraphs are those of the program: what lies beside a graph file is not known
        // here.
        let mut environment = Environment::new(Registry::global()).with_files(Arc::clone(&own));
        if !loads {
            environment = environment.without_loading();
        }
        let parsed = parse_graph(&mut sources, FILE, self.graph.as_str());
        let mut found = parsed.diagnostics;
        let plan = parsed.graph.and_then(|graph| {
            let (plan, more) = Plan::compile(&graph, &mut sources, &environment);
            found.extend(more);
            plan
        });
        files.also_seen(&own.seen());
        if let Some(plan) = plan.filter(|_| !diag::has_errors(&found)) {
            return Ok(plan);
        }
        // They point into the graph that was made of the node, so only their words are of use.
        let errors = found.iter().filter(|it| it.is_error());
        let messages = errors.flat_map(|it| {
            let hints = it.hints.iter().map(|hint| hint.text.as_str());
            iter::once(it.message.as_str()).chain(hints)
        });
        let messages: Vec<&str> = messages.collect();
        Err(Error::invalid(messages.join("; ")))
    }
}

impl Resource for NodeModel {
    type Spec = NodeModelSpec;

    fn resolve(mut spec: NodeModelSpec, files: &dyn FileSource) -> Result<NodeModelSpec> {
        spec.base = files.resolve(Path::new("."));
        Ok(spec)
    }

    fn check(spec: &NodeModelSpec, files: &dyn FileSource) -> Result<()> {
        let plan = spec.compile(files, false)?;
        let tensor = TypeInfo::of::<Tensor>();
        for input in plan.graph_inputs() {
            let takes = plan.input_types(input).unwrap_or_default();
            if !takes.is_empty() && !takes.contains(&tensor) {
                let names: Vec<String> = takes.iter().map(|it| it.name()).collect();
                return Err(Error::invalid(format!(
                    "the node's input `{input}` takes {}: only tensors are batched",
                    names.join(" or ")
                )));
            }
        }
        Ok(())
    }

    fn load(spec: &NodeModelSpec, files: &dyn FileSource) -> Result<Self> {
        let model = Self {
            plan: spec.compile(files, true)?,
        };
        // Says which side packet is missing, if one is.
        model.session()?;
        Ok(model)
    }
}

impl NodeModel {
    fn session(&self) -> Result<(Session, graphmill_engine::Handle)> {
        Session::new(&self.plan, RunCx::new("batch"), SidePackets::new())
    }
}

impl TensorModel for NodeModel {
    /// Nothing is known of them.
    fn inputs(&self) -> &[TensorInfo] {
        &[]
    }

    /// Nothing is known of them.
    fn outputs(&self) -> &[TensorInfo] {
        &[]
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let (mut session, handle) = self.session()?;
        let names: Vec<&str> = self.plan.graph_outputs().collect();
        let made: Arc<Mutex<Vec<Option<Packet>>>> = Arc::new(Mutex::new(vec![None; names.len()]));
        for (at, name) in names.iter().enumerate() {
            let made = Arc::clone(&made);
            let again = format!("the node has put out `{name}` twice for one batch");
            session.observe(name, false, move |_, packet| {
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                match made[at].replace(packet.cloned().unwrap_or_else(|| Packet::side(()))) {
                    None => Ok(()),
                    Some(_) => Err(Error::internal(again.as_str())),
                }
            })?;
        }
        for (name, tensor) in self.plan.graph_inputs().zip(inputs) {
            handle.try_push(name, Packet::new(0, tensor))?;
        }
        handle.close_all();
        session.run()?;
        let made = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
        let outputs = names.iter().zip(made).map(|(name, packet)| {
            let tensor = packet.and_then(Packet::into_value::<Tensor>);
            tensor.ok_or_else(|| {
                Error::internal(format!("the node has put out no tensor on `{name}`"))
            })
        });
        outputs.collect()
    }
}

impl BatchedModel for NodeModel {
    const NAME: &'static str = "BatchedNodeCalculator";
    const DOC: &'static str =
        "Batches the calls of a node. `DynamicBatchCalculator` stands for it.";
    const OPTION_NAMES: &'static [&'static str] = &["graphmill.DynamicBatchCalculatorOptions"];
    type Options = NodeModelOptions;

    fn spec(options: &NodeModelOptions, c: &mut Contract) -> NodeModelSpec {
        if options.graph.is_empty() {
            c.missing_option("model", "{ graph: \"..\" }");
        }
        NodeModelSpec {
            graph: options.graph.clone(),
            label: options.label.clone(),
            base: PathBuf::new(),
        }
    }

    fn label(spec: &NodeModelSpec) -> String {
        spec.label.clone()
    }
}
register_async!(DynamicBatch<NodeModel>);
