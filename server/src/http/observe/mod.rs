//! Observation of graphs and sessions: changing figures, reasons why a session waits, packets of
//! streams, and recordings. Also helps authors of graphs.

mod authoring;
mod graphs;
mod playground;
mod sessions;

use super::{
    operation::{Answer, Group, Operation, Parameter, ParameterKind, Side},
    request::wrong,
};
use crate::{
    errors::{Cause, Result},
    keys::Permission,
};

/// Causes of failures of questions about a graph.
#[rustfmt::skip]
const OF_A_GRAPH: &[Cause] = &[
    Cause::BadRequest, Cause::UnknownModel, Cause::NotFound, Cause::QueueFull, Cause::Loading, Cause::GraphFailed, Cause::NoMemory,
    Cause::Unavailable,
];

/// Causes of failures of requests with a body.
const WITH_A_BODY: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel];

/// Causes of failures of edits.
#[rustfmt::skip]
const WITH_AN_EDIT: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel, Cause::NotFound, Cause::Unavailable];

/// Causes of failures of playground runs.
const WITH_A_TRIAL: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel, Cause::QueueFull];

const ONE_SESSION: Parameter = Parameter::new(
    "session",
    ParameterKind::OptionalText,
    "Id of a session. Default: all sessions",
);

#[rustfmt::skip]
const OF_A_TAP: &[Parameter] = &[
    Parameter::new("stream", ParameterKind::Texts, "Names of streams, as `GET /v3/graphs/{name}` lists them"),
    ONE_SESSION,
    Parameter::new("rate", ParameterKind::Share, "Share of the packets to send. Default: 1"),
    Parameter::new("payloads", ParameterKind::Boolean, "Includes the payloads of packets. Default: `true`"),
];

#[rustfmt::skip]
const OF_A_RECORDING: &[Parameter] = &[
    Parameter::new("key", ParameterKind::OptionalText, "Name of the key whose requests are recorded. Default: all keys"),
    Parameter::new("rate", ParameterKind::Share, "Share of the sessions to record. Default: 1"),
    Parameter::new("sessions", ParameterKind::Count(sessions::MAX_SESSIONS as u64), "Maximum number of sessions to record. Default: 10"),
    Parameter::new("payloads", ParameterKind::Boolean, "Records the payloads of packets. Default: `false`"),
    Parameter::new("seconds", ParameterKind::Count(sessions::MAX_SECONDS), "Seconds after which recording ends. Default: 60"),
];

#[rustfmt::skip]
const OF_A_TRIAL: &[Parameter] = &[
    Parameter::new("graph", ParameterKind::Text, "Text of the graph"),
    Parameter::new("beside", ParameterKind::OptionalText, "Served graph in whose folder the file is compiled. Default: the first whose folder has all that it needs"),
    Parameter::new("test", ParameterKind::OptionalText, "Input packets: a test file with one case, without a graph"),
    Parameter::new("path", ParameterKind::OptionalText, "Path of a request, in place of `test`"),
    Parameter::new("body", ParameterKind::Object, "Body of that request"),
];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Any, Events, Json, Nothing, Text};
    use Group::Graphs;
    let operations = [
        Operation::get("/v3/graphs", graphs::list).about(Graphs, "The graphs, their states and their sessions").answers(Json(&["graphs"])),
        Operation::get("/v3/graphs/{name}", graphs::one).about(Graphs, "A graph as it runs, with its subgraphs expanded").answers(Any)
            .asks(const { &[Parameter::new("format", ParameterKind::OneOf(&["json", "dot", "mermaid", "text"]), "Output format. Default: `json`")] }),
        Operation::get("/v3/graphs/{name}/events", graphs::events).about(Graphs, "Changing figures of a graph's nodes and queues").answers(Events)
            .asks(&[ONE_SESSION]),
        Operation::get("/v3/graphs/{name}/file", authoring::text).about(Graphs, "Text of a graph's file").answers(Text(&["text/plain"]))
            .needs(Permission::Admin),
        Operation::put("/v3/graphs/{name}/file", authoring::save).about(Graphs, "Replaces a graph's file; needs `--allow_graph_edits`")
            .answers(Json(&["name", "file", "diagnostics"]))
            .takes_text().refuses(WITH_AN_EDIT),
        Operation::get("/v3/graphs/{name}/tap", graphs::tap).about(Graphs, "Packets of some streams of a graph, as they pass").answers(Events)
            .asks(OF_A_TAP).needs(Permission::Admin),
        Operation::get("/v3/graphs/{name}/recording", sessions::list_recordings).about(Graphs, "Recordings of a graph, and the active recording rule")
            .answers(Json(&["active", "recordings"])),
        Operation::post("/v3/graphs/{name}/recording", sessions::record).about(Graphs, "Records the next sessions of a graph")
            .answers(Json(&["active", "recordings"]))
            .takes(OF_A_RECORDING).refuses(WITH_A_BODY),
        Operation::delete("/v3/graphs/{name}/recording", sessions::record_no_more).about(Graphs, "Stops recording sessions").answers(Nothing),
        Operation::get("/v3/sessions", sessions::list_open).about(Graphs, "Open sessions, and what each waits for")
            .answers(Json(&["sessions", "total"]))
            .asks(const { &[Parameter::new("graph", ParameterKind::OptionalText, "Graph whose sessions are listed. Default: all graphs")] }),
        Operation::get("/v3/sessions/{id}/why", sessions::why).about(Graphs, "Reasons why the nodes of a session wait")
            .answers(Json(&["id", "text", "waits"])),
        Operation::get("/v3/sessions/{id}/trace", sessions::trace).about(Graphs, "Timeline of a recorded session").answers(Json(&[]))
            .asks(const { &[Parameter::new("format", ParameterKind::OneOf(&["json", "chrome"]), "Output format. Default: `json`")] }),
        Operation::get("/v3/sessions/{id}/recording", sessions::packets).about(Graphs, "Packets of a recorded session, as lines of JSON")
            .answers(Text(&["application/x-ndjson"])).needs(Permission::Admin),
        Operation::post("/v3/check", authoring::check).about(Graphs, "Diagnostics of the text of a graph, and its plan")
            .answers(Json(&["diagnostics", "plan"]))
            .takes(const { &[Parameter::new("graph", ParameterKind::Text, "Text of the graph")] }).refuses(WITH_A_BODY),
        Operation::post("/v3/playground", playground::run).about(Graphs, "Runs a graph that is not served, with models of served graphs")
            .answers(Json(&["outputs", "events", "error"]))
            .takes(OF_A_TRIAL).refuses(WITH_A_TRIAL),
        Operation::get("/v3/calculators", authoring::calculators).about(Graphs, "Calculators and subgraphs that nodes can use").answers(Json(&["calculators"])),
        Operation::get("/v3/calculators/{calculator}", authoring::calculator).about(Graphs, "Details of a calculator or subgraph")
            .answers(Json(&["name", "doc"])),
    ];
    let managed = operations.into_iter().map(|it| it.on(Side::Management));
    managed.map(|it| if matches!(it.method, "post" | "put") { it } else { it.refuses(OF_A_GRAPH) }).collect()
}

/// Refuses numbers that are not a share.
fn rate(rate: f64) -> Result<f64> {
    if rate > 0.0 && rate <= 1.0 {
        return Ok(rate);
    }
    let why = "is not a share: expected a number above 0 and up to 1";
    Err(wrong("rate", why))
}
