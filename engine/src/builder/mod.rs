//! Graphs made by a program instead of a file.
//!
//! A [`GraphBuilder`] collects nodes and connections and writes them as the text of a graph file.
//! Plans are compiled from that text. So a graph means the same whether it was written or built,
//! and diagnostics show the part at fault.
//!
//! ```
//! use graphmill_engine::{
//!     Calculator, Contract, Cx, Environment, Flow, GraphBuilder, In, NoOptions, OpenCx, Out, Registry, Result,
//! };
//!
//! struct Double;
//! impl Calculator for Double {
//!     const NAME: &'static str = "DoubleCalculator";
//!     type Options = NoOptions;
//!     type Ports = (In<i64>, Out<i64>);
//!     fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
//!         (c.input("IN"), c.output("OUT"))
//!     }
//!     fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
//!         Ok(Self)
//!     }
//!     fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
//!         if let Some(value) = cx.take(input) {
//!             cx.emit(output, 2 * value);
//!         }
//!         Ok(Flow::Continue)
//!     }
//! }
//!
//! let graph = GraphBuilder::new();
//! let number = graph.input::<i64>("number");
//! let double = graph.node::<Double>();
//! double.input(|ports| ports.0, &number);
//! graph.output("doubled", &double.output(|ports| ports.1));
//!
//! assert_eq!(graph.text(), r#"input_stream: "number"
//! output_stream: "doubled"
//!
//! node {
//!   calculator: "DoubleCalculator"
//!   input_stream: "IN:number"
//!   output_stream: "OUT:doubled"
//! }
//! "#);
//! graph.compile(&Environment::new(Registry::new())).unwrap();
//! ```

mod draft;
mod message;
mod node;
mod options;
mod wire;

use std::{cell::RefCell, collections::HashSet, fmt, rc::Rc, sync::Arc};

use graphmill_grammar::{
    Diagnostic, SourceMap,
    ast::{Field, ValueKind},
    diag, fmt as format, parse_graph, render,
};

pub use node::NodeBuilder;
pub use wire::{Fits, SideWire, Wire};

use crate::{
    calculator::{AsyncCalculator, Calculator},
    contract::Contract,
    plan::Plan,
    port::PortType,
    registry::Registration,
    registry::environment::Environment,
};

use draft::{Draft, Port};
use message::{boolean, field, repeated, root, text};
use wire::Name;

/// File name of a built graph in diagnostics.
const FILE: &str = "built.pbtxt";

/// A graph under construction. Its methods take `&self`, so that nodes and wires can be held and
/// connected in any order.
///
/// A stream or side packet is named by the graph's inputs and outputs, or else after the node
/// output that produces it.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    state: RefCell<GraphParts>,
}

#[derive(Default)]
struct GraphParts {
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    sides: Vec<Port>,
    output_sides: Vec<Port>,
    nodes: Vec<Draft>,
    /// Names of all streams and side packets.
    names: Vec<Rc<Name>>,
    /// Fields of the graph itself, such as its executors.
    settings: Vec<Field>,
    /// Calculators named by their Rust types.
    registrations: Vec<Registration>,
    problems: Vec<String>,
}

impl fmt::Debug for GraphParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.nodes).finish()
    }
}

impl GraphBuilder {
    /// Makes a graph without nodes, inputs and outputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares an input stream: `"name"`, `"TAG:name"` or `"TAG:1:name"`.
    pub fn input<T: ?Sized + PortType>(&self, port: &str) -> Wire<T> {
        Wire::new(self.border(|state| &mut state.inputs, port))
    }

    /// Declares an input side packet, in the same form as [`Self::input`].
    pub fn side<T: ?Sized + PortType>(&self, port: &str) -> SideWire<T> {
        SideWire::new(self.border(|state| &mut state.sides, port))
    }

    /// Declares a stream as an output of the graph and names it.
    pub fn output<T: ?Sized>(&self, port: &str, wire: &Wire<T>) {
        self.give_out(|state| &mut state.outputs, port, &wire.name);
    }

    /// Declares a side packet as an output of the graph and names it.
    pub fn output_side<T: ?Sized>(&self, port: &str, wire: &SideWire<T>) {
        self.give_out(|state| &mut state.output_sides, port, &wire.name);
    }

    /// Adds a node. Its calculator need not be registered.
    pub fn node<C: Calculator>(&self) -> NodeBuilder<'_, C::Ports> {
        self.typed(Registration::new::<C>(), C::contract)
    }

    /// Adds a node of an async calculator. The calculator need not be registered.
    pub fn async_node<C: AsyncCalculator>(&self) -> NodeBuilder<'_, C::Ports> {
        self.typed(Registration::new_async::<C>(), C::contract)
    }

    /// Adds a node by the name of a registered calculator or subgraph.
    pub fn node_named(&self, calculator: &str) -> NodeBuilder<'_> {
        let index = self.add(calculator);
        NodeBuilder::new(self, index, (), Default::default())
    }

    /// Declares an executor with this many threads, for [`NodeBuilder::executor`].
    pub fn executor(&self, name: &str, threads: i32) {
        let options = message::extension(
            "ThreadPoolExecutorOptions",
            vec![field("num_threads", ValueKind::integer(threads.into()))],
        );
        let executor = message::message(vec![
            field("name", text(name)),
            field("type", text("ThreadPoolExecutor")),
            field("options", message::message(vec![options])),
        ]);
        self.set(field("executor", executor));
    }

    /// Sets the number of packets in a queue at which its producer waits; -1 is no limit.
    pub fn max_queue_size(&self, packets: i32) {
        self.set(field("max_queue_size", ValueKind::integer(packets.into())));
    }

    /// Sets whether a deadlock caused by full queues is an error. By default the queues grow.
    pub fn report_deadlock(&self, report: bool) {
        self.set(field("report_deadlock", boolean(report)));
    }

    /// Sets the name by which other graphs use this graph as a node.
    pub fn type_name(&self, name: &str) {
        self.set(field("type", text(name)));
    }

    /// Writes the graph as the text of a graph file.
    pub fn text(&self) -> String {
        let mut state = self.state.borrow_mut();
        state.name_all();
        let ports = |name, ports: &[Port]| {
            let texts = ports.iter().map(|port| text(port.text()));
            repeated(name, texts)
        };
        let mut fields = ports("input_stream", &state.inputs);
        fields.extend(ports("output_stream", &state.outputs));
        fields.extend(ports("input_side_packet", &state.sides));
        fields.extend(ports("output_side_packet", &state.output_sides));
        fields.extend(state.settings.iter().cloned());
        let nodes = state.nodes.iter_mut();
        fields.extend(nodes.map(|node| field("node", message::message(node.fields()))));
        format::print(&root(fields))
    }

    /// Compiles the graph. Calculators named by their types need not be in the environment's
    /// registry. Warnings are logged.
    pub fn compile(&self, environment: &Environment) -> Result<Arc<Plan>, BuildError> {
        let text = self.text();
        let state = self.state.borrow();
        let gaps = state.nodes.iter().filter_map(Draft::gap);
        let problems = state.problems.iter().cloned().chain(gaps).collect();
        let mut registry = environment.registry().clone();
        for registration in &state.registrations {
            registry.add(*registration);
        }
        drop(state);
        let mut error = BuildError {
            problems,
            sources: SourceMap::new(),
            diagnostics: Vec::new(),
        };
        let parsed = parse_graph(&mut error.sources, FILE, text);
        error.diagnostics = parsed.diagnostics;
        let environment = environment.clone().with_registry(registry);
        let plan = parsed.graph.and_then(|graph| {
            let (plan, found) = Plan::compile(&graph, &mut error.sources, &environment);
            error.diagnostics.extend(found);
            plan
        });
        let failed = !error.problems.is_empty() || diag::has_errors(&error.diagnostics);
        match plan.filter(|_| !failed) {
            Some(plan) => {
                if !error.diagnostics.is_empty() {
                    tracing::warn!("the built graph has warnings:\n{error}");
                }
                Ok(plan)
            }
            None => Err(error),
        }
    }

    fn typed<O: Default, P>(
        &self,
        registration: Registration,
        declare: fn(&mut Contract, &O) -> P,
    ) -> NodeBuilder<'_, P> {
        let mut contract = Contract::describing();
        let ports = declare(&mut contract, &O::default());
        let name = registration.registered_name();
        let index = self.add(name);
        let mut state = self.state.borrow_mut();
        state.registrations.push(registration.named(name));
        drop(state);
        NodeBuilder::new(self, index, ports, node::tags(&contract))
    }

    fn add(&self, calculator: &str) -> usize {
        let mut state = self.state.borrow_mut();
        state.nodes.push(Draft::new(calculator));
        state.nodes.len() - 1
    }

    fn set(&self, field: Field) {
        self.state.borrow_mut().settings.push(field);
    }

    fn border(&self, ports: fn(&mut GraphParts) -> &mut Vec<Port>, port: &str) -> Rc<Name> {
        let (port, name) = split(port);
        let name = Name::given(name);
        let mut state = self.state.borrow_mut();
        state.names.push(Rc::clone(&name));
        ports(&mut state).push(Port::new(port, Rc::clone(&name)));
        name
    }

    fn give_out(&self, ports: fn(&mut GraphParts) -> &mut Vec<Port>, port: &str, name: &Rc<Name>) {
        let (port, wanted) = split(port);
        let mut state = self.state.borrow_mut();
        if let Err(known) = name.give(wanted) {
            let problem = format!(
                "output `{wanted}` is already named `{known}`: a stream or side packet can be an input or output of the graph only once; put a node in between"
            );
            state.problems.push(problem);
        }
        ports(&mut state).push(Port::new(port, Rc::clone(name)));
    }
}

impl GraphParts {
    /// Names each stream and side packet that has no name yet.
    fn name_all(&mut self) {
        let mut taken: HashSet<String> = HashSet::new();
        let given = self.names.iter().filter(|name| name.is_given());
        taken.extend(given.map(ToString::to_string));
        for name in self.names.iter().filter(|name| !name.is_given()) {
            name.make_up(|name| !taken.insert(name.to_owned()));
        }
    }
}

/// Splits `TAG:1:name` into the port and the name.
fn split(port: &str) -> (&str, &str) {
    port.rsplit_once(':').unwrap_or(("", port))
}

/// The reasons why a built graph does not compile.
pub struct BuildError {
    /// Mistakes in the calls that built the graph.
    pub problems: Vec<String>,
    /// Text of the graph and the files of its subgraphs.
    pub sources: SourceMap,
    /// Errors and warnings about the graph itself.
    pub diagnostics: Vec<Diagnostic>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let shown = render::human(&self.sources, &self.diagnostics, render::Color::Plain);
        f.write_str(shown.trim_end())
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
