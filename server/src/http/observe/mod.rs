//! Observation of graphs and sessions: figures as they change, why a session is stuck, passing
//! packets, and recordings; and help for authors of graphs.

mod authoring;
mod graphs;
mod playground;
mod sessions;

use std::sync::Arc;

use super::{
    operation::{Answer, Group, Kind, Operation, Parameter, Side},
    request::wrong,
};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    keys::Need,
    servable::Servable,
};

/// Why a question about a graph may not be answered.
#[rustfmt::skip]
const OF_A_GRAPH: &[Cause] = &[
    Cause::BadRequest, Cause::UnknownModel, Cause::NotFound, Cause::QueueFull, Cause::Loading, Cause::GraphFailed, Cause::NoMemory,
    Cause::Unavailable,
];

/// The same of one that comes with a body.
const WITH_A_BODY: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel];

/// The same of what is written into a graph's file.
#[rustfmt::skip]
const WITH_AN_EDIT: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel, Cause::NotFound, Cause::Unavailable];

/// The same of a graph that is tried.
const WITH_A_TRIAL: &[Cause] = &[Cause::BadRequest, Cause::UnknownModel, Cause::QueueFull];

const ONE_SESSION: Parameter =
    Parameter::new("session", Kind::OptionalText, "The id of the only session");

#[rustfmt::skip]
const OF_A_TAP: &[Parameter] = &[
    Parameter::new("stream", Kind::Texts, "The streams, as `GET /v3/graphs/{name}` lists them"),
    ONE_SESSION,
    Parameter::new("rate", Kind::Share, "The share of the packets; 1"),
    Parameter::new("payloads", Kind::Boolean, "Shows what they carry; `true`"),
];

#[rustfmt::skip]
const OF_A_RECORDING: &[Parameter] = &[
    Parameter::new("key", Kind::OptionalText, "The name of the key whose requests are recorded; all"),
    Parameter::new("rate", Kind::Share, "The share of the sessions; 1"),
    Parameter::new("sessions", Kind::Count(sessions::MAX_SESSIONS as u64), "How many are recorded; 10"),
    Parameter::new("payloads", Kind::Boolean, "Whether what packets carry is recorded; `false`"),
    Parameter::new("seconds", Kind::Count(sessions::MAX_SECONDS), "For how long; 60"),
];

#[rustfmt::skip]
const OF_A_TRIAL: &[Parameter] = &[
    Parameter::new("graph", Kind::Text, "The text of the graph"),
    Parameter::new("beside", Kind::OptionalText, "The served graph beside which its file would lie; any"),
    Parameter::new("test", Kind::OptionalText, "What goes in: a test file with one case, without a graph"),
    Parameter::new("path", Kind::OptionalText, "In its place: the path of a request"),
    Parameter::new("body", Kind::Object, "The body of that request"),
];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Answer::{Any, Events, Json, Nothing, Text};
    use Group::Graphs;
    let operations = [
        Operation::get("/v3/graphs", graphs::list).about(Graphs, "The graphs, their states and their sessions").answers(Json(&["graphs"])),
        Operation::get("/v3/graphs/{name}", graphs::one).about(Graphs, "A graph as it runs, with its subgraphs expanded").answers(Any)
            .asks(const { &[Parameter::new("format", Kind::OneOf(&["json", "dot", "mermaid", "text"]), "Its form; `json`")] }),
        Operation::get("/v3/graphs/{name}/events", graphs::events).about(Graphs, "What its nodes and queues do, as it changes").answers(Events)
            .asks(&[ONE_SESSION]),
        Operation::get("/v3/graphs/{name}/file", authoring::text).about(Graphs, "The text of its file").answers(Text(&["text/plain"]))
            .needs(Need::Admin),
        Operation::put("/v3/graphs/{name}/file", authoring::save).about(Graphs, "Writes its file, with `--allow_graph_edits`")
            .answers(Json(&["name", "file", "diagnostics"]))
            .takes_text().refuses(WITH_AN_EDIT),
        Operation::get("/v3/graphs/{name}/tap", graphs::tap).about(Graphs, "The packets of some of its streams, as they come").answers(Events)
            .asks(OF_A_TAP).needs(Need::Admin),
        Operation::get("/v3/graphs/{name}/recording", sessions::list_recordings).about(Graphs, "What was recorded of it, and whether more is")
            .answers(Json(&["active", "recordings"])),
        Operation::post("/v3/graphs/{name}/recording", sessions::record).about(Graphs, "Records coming sessions")
            .answers(Json(&["active", "recordings"]))
            .takes(OF_A_RECORDING).refuses(WITH_A_BODY),
        Operation::delete("/v3/graphs/{name}/recording", sessions::record_no_more).about(Graphs, "Records no more sessions").answers(Nothing),
        Operation::get("/v3/sessions", sessions::list_open).about(Graphs, "The open sessions, and what each waits for")
            .answers(Json(&["sessions", "total"]))
            .asks(const { &[Parameter::new("graph", Kind::OptionalText, "The only graph whose sessions are listed")] }),
        Operation::get("/v3/sessions/{id}/why", sessions::why).about(Graphs, "What each node of a session waits for")
            .answers(Json(&["id", "text", "waits"])),
        Operation::get("/v3/sessions/{id}/trace", sessions::trace).about(Graphs, "What a recorded session did when").answers(Json(&[]))
            .asks(const { &[Parameter::new("format", Kind::OneOf(&["json", "chrome"]), "Its form; `json`")] }),
        Operation::get("/v3/sessions/{id}/recording", sessions::packets).about(Graphs, "The packets of a recorded session, as lines of JSON")
            .answers(Text(&["application/x-ndjson"])).needs(Need::Admin),
        Operation::post("/v3/check", authoring::check).about(Graphs, "What is wrong with the text of a graph, and its plan")
            .answers(Json(&["diagnostics", "plan"]))
            .takes(const { &[Parameter::new("graph", Kind::Text, "The text of the graph")] }).refuses(WITH_A_BODY),
        Operation::post("/v3/playground", playground::run).about(Graphs, "Runs a graph that is not served, with models that are")
            .answers(Json(&["outputs", "events", "error"]))
            .takes(OF_A_TRIAL).refuses(WITH_A_TRIAL),
        Operation::get("/v3/calculators", authoring::calculators).about(Graphs, "What nodes of graphs can be").answers(Json(&["calculators"])),
        Operation::get("/v3/calculators/{calculator}", authoring::calculator).about(Graphs, "All that is known of a calculator or subgraph")
            .answers(Json(&["name", "doc"])),
    ];
    let managed = operations.into_iter().map(|it| it.on(Side::Management));
    managed.map(|it| if matches!(it.method, "post" | "put") { it } else { it.refuses(OF_A_GRAPH) }).collect()
}

/// The graph, or version of a graph, of this name.
fn graph(app: &App, name: &str) -> Result<Arc<Servable>, Failure> {
    app.servables().graph(name)
}

/// Refuses what is no share of packets or sessions.
fn rate(rate: f64) -> Result<f64, Failure> {
    if rate > 0.0 && rate <= 1.0 {
        return Ok(rate);
    }
    let why = "is no share: expected a number above 0 and up to 1";
    Err(wrong("rate", why))
}
