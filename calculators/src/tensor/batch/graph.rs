//! A model that runs a node: each batch is a run of a graph of that node alone.

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

/// Name of the node's graph in diagnostics.
const FILE: &str = "model.pbtxt";

/// Runs a node as a model whose calls are batched. Each batch is a run of the graph in the options.
/// `DynamicBatchCalculator` expands to this node; use that one in graph files.
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

/// Options of [`NodeModel`], as `DynamicBatchCalculator` writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeModelOptions {
    /// A graph of one node whose streams carry tensors.
    pub graph: String,
    /// Name in messages and metrics: that of the node's calculator.
    pub label: String,
}

/// The graph, name and folder from which a [`NodeModel`] is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeModelSpec {
    node: NodeModelOptions,
    /// Folder to which paths in the graph are relative.
    base: PathBuf,
}

impl NodeModelSpec {
    /// Compiles the graph of the node. Errors of the graph become one error.
    fn compile(&self, files: &dyn FileSource, loads: bool) -> Result<Arc<Plan>> {
        let mut sources = SourceMap::new();
        let own = Arc::new(TrackedFiles::new(Files::new(&self.base)));
        // Only nodes and subgraphs of the program are known here, not those beside a graph file.
        let mut environment = Environment::new(Registry::global()).with_files(Arc::clone(&own));
        if !loads {
            environment = environment.without_loading();
        }
        let parsed = parse_graph(&mut sources, FILE, self.node.graph.as_str());
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
        // Their spans point into a generated graph, so only their messages are used.
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
        let tensor = TypeInfo::new::<Tensor>();
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
        // Fails if a side packet is missing, and names it.
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
    /// Returns nothing, because the inputs of a node have no known shapes.
    fn inputs(&self) -> &[TensorInfo] {
        &[]
    }

    /// Returns nothing, because the outputs of a node have no known shapes.
    fn outputs(&self) -> &[TensorInfo] {
        &[]
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let (mut session, handle) = self.session()?;
        let names: Vec<&str> = self.plan.graph_outputs().collect();
        let made: Arc<Mutex<Vec<Option<Packet>>>> = Arc::new(Mutex::new(vec![None; names.len()]));
        for (at, name) in names.iter().enumerate() {
            let made = Arc::clone(&made);
            let again = format!("the node has emitted `{name}` twice for one batch");
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
                Error::internal(format!("the node has emitted no tensor on `{name}`"))
            })
        });
        outputs.collect()
    }
}

impl BatchedModel for NodeModel {
    const NAME: &'static str = "BatchedNodeCalculator";
    const DOC: &'static str =
        "Batches the calls of a node. Graphs name it `DynamicBatchCalculator`.";
    const OPTION_NAMES: &'static [&'static str] = &["graphmill.DynamicBatchCalculatorOptions"];
    type Options = NodeModelOptions;

    fn spec(options: &NodeModelOptions, c: &mut Contract) -> NodeModelSpec {
        if options.graph.is_empty() {
            c.missing_option("model", "{ graph: \"..\" }");
        }
        NodeModelSpec {
            node: options.clone(),
            base: PathBuf::new(),
        }
    }

    fn label(spec: &NodeModelSpec) -> String {
        spec.node.label.clone()
    }
}
register_async!(DynamicBatch<NodeModel>);
