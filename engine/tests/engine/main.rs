//! The engine at its public boundary, one theme a module.

mod backpressure;
mod bounds;
mod builder;
mod cancel;
mod compile;
mod containers;
mod contracts;
mod diagnostics;
mod embedding;
mod ending;
mod events;
mod fields;
mod in_flight;
mod isolation;
mod loops;
mod nodes;
mod offload;
mod policies;
mod resources;
mod runtime;
mod sides;
mod sources;
mod subgraph_options;
mod subgraphs;
mod timestamps;
mod why;
