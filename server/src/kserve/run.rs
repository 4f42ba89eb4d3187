//! One request for a run of a graph, independent of the transport: a run of its own, or the next
//! part of a sequence.

use std::sync::Arc;

use graphmill_calculators::tensor::{Datatype, shape_of};
use graphmill_engine::{Packet, Plan, Summary, Timestamp, shortened};
use prost::Message as _;
use tokio::task::spawn_blocking;

use super::{
    Label, ParameterMap, SHOWN_BYTES, SequenceControl, Sequences, Settings, WantedOutput,
    find_version,
    parameters::{
        BINARY_OUTPUT, CONTENT_TYPE, FINAL_RESPONSE, PRIORITY, TIMEOUT, check_content_type,
    },
    sequences::Sequence,
    unsupported, wrong,
};
use crate::{
    errors::{Cause, Failure, Result},
    run::{Driver, GraphRun, RequestContext, Tensors},
    servable::Ready,
    tensors,
};

/// Size in bytes above which inputs are hashed outside of the threads that serve requests.
const INLINE_BYTES: usize = 256 << 10;

/// Parameters that do not change the tensors of an answer, only its deadline or format.
const HOW_AND_WHEN: [&str; 4] = [TIMEOUT, PRIORITY, BINARY_OUTPUT, FINAL_RESPONSE];

/// A request for a run.
pub(crate) struct RunRequest {
    pub(crate) graph: String,
    /// Version of the graph; empty if the request names none.
    pub(crate) version: String,
    pub(crate) parameters: ParameterMap,
    pub(crate) inputs: Tensors,
    /// Wanted outputs; empty means all.
    pub(crate) outputs: Vec<WantedOutput>,
}

/// The result of a run.
pub(crate) struct Outcome {
    /// Name and version of the graph.
    pub(crate) label: Label,
    /// Wanted outputs, in the order of the request.
    pub(crate) tensors: Tensors,
    /// Summary of the session; `None` within a sequence, as the session continues.
    pub(crate) summary: Option<Summary>,
}

/// Waits until the graph of this name and version is available. Loads an on-demand graph.
pub(crate) async fn loaded(who: &RequestContext, name: &str, version: &str) -> Result<Ready> {
    let (name, graph) = find_version(|name| who.find(name), name, version)?;
    let deadline = who.deadline(who.time_for(&graph, None));
    who.available(&name, deadline).await
}

/// Waits for a graph like [`loaded`], and refuses one whose streams do not carry tensors.
pub(crate) async fn available(who: &RequestContext, name: &str, version: &str) -> Result<Ready> {
    let ready = loaded(who, name, version).await?;
    if tensors::is_served(&ready.plan).unwrap_or(false) {
        return Ok(ready);
    }
    let name = ready.servable.name();
    let why = format!("the graph `{name}` takes HTTP requests, not tensors");
    Err(Failure::new(Cause::BadRequest, why).with_field("model_name"))
}

/// Runs a graph with the tensors of a request.
pub(crate) async fn run(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    request: RunRequest,
) -> Result<Outcome> {
    // Before the end of the answer is sent, because the next request may follow at once.
    let _settlement = who.settlement();
    if let Some(part) = SequenceControl::read(&request.parameters)? {
        return part_of_sequence(sequences, who, request, &part).await;
    }
    let ready = available(who, &request.graph, &request.version).await?;
    let label = Label::from(&*ready.servable);
    check_outputs(&request.outputs, ready.plan())?;
    let settings = Settings::read(&request.parameters, ready.plan())?;
    who.entry.model(ready.servable.name(), false);
    let plan = Arc::clone(&ready.plan);
    let cache = match tensors::response_cache(&plan).filter(|_| !who.is_recorded()) {
        Some(cache) => Some((cache, key_of(&request).await?)),
        None => None,
    };
    if let Some((cache, key)) = &cache {
        let kept = cache.get(key);
        who.entry.was_kept(kept.is_some());
        if let Some(tensors) = kept {
            who.entry.entered();
            who.entry.answers();
            return Ok(Outcome {
                label,
                tensors: choose(&plan, tensors, &request.outputs)?,
                summary: None,
            });
        }
    }
    let deadline = who.deadline(who.time_for(&ready.servable, settings.timeout));
    let (sides, priority) = (&settings.sides, settings.priority);
    let mut run = GraphRun::open_tensors(who, ready, sides, priority, deadline, Driver::Reader)?;
    let packets = packets(&run.plan, request.inputs, true)?;
    let time = settings.time.unwrap_or(Timestamp::ZERO);
    let mut feeder = run.feeder();
    let feeding = async move {
        feeder.push(packets, time, None).await?;
        feeder.close();
        Ok(())
    };
    let ((), tensors) = tokio::try_join!(feeding, run.collect(None))?;
    if tensors.is_empty() {
        return Err(Failure::no_answer(run.summary()));
    }
    if let Some((cache, key)) = cache {
        cache.keep(key, &tensors);
    }
    who.entry.answers();
    Ok(Outcome {
        label,
        tensors: choose(&plan, tensors, &request.outputs)?,
        summary: run.summary().cloned(),
    })
}

/// Returns the key of a request in the graph's cache of answers.
async fn key_of(request: &RunRequest) -> Result<tensors::AnswerKey> {
    let parameters = request.parameters.iter();
    let parameters = parameters.filter(|(name, _)| !HOW_AND_WHEN.contains(&name.as_str()));
    let parameters = parameters.map(|(name, value)| (name.clone(), value.encode_to_vec()));
    let parameters: Vec<(String, Vec<u8>)> = parameters.collect();
    let lengths = request.inputs.iter().map(|(_, tensor)| tensor.data().len());
    if lengths.sum::<usize>() <= INLINE_BYTES {
        return Ok(tensors::key(&parameters, &request.inputs));
    }
    // The data is shared, not copied.
    let inputs = request.inputs.clone();
    let hashing = spawn_blocking(move || tensors::key(&parameters, &inputs));
    hashing.await.map_err(|_| Failure::stopping())
}

/// Continues or starts a sequence. An error in a request leaves the sequence unchanged. An error in
/// the graph ends it.
async fn part_of_sequence(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    request: RunRequest,
    part: &SequenceControl,
) -> Result<Outcome> {
    let mut hold = sequences.take(who.owner.clone(), &request.graph, part)?;
    let (mut sequence, settings) = if let Some(sequence) = hold.sequence.take() {
        who.entry.model(&sequence.name, false);
        who.entry.entered();
        (sequence, Settings::read_next(&request.parameters))
    } else {
        let ready = available(who, &request.graph, &request.version).await?;
        let settings = Settings::read(&request.parameters, ready.plan())?;
        (begin(who, ready, &settings)?, Ok(settings))
    };
    let checked = settings.and_then(|settings| {
        let plan = &sequence.run.plan;
        check_version(&request.version, &sequence.label.version, "sequence")?;
        check_outputs(&request.outputs, plan)?;
        let packets = packets(plan, request.inputs, true)?;
        let time = settings.time;
        let time = time.unwrap_or_else(|| sequence.feeder.next_time(0));
        sequence.feeder.check(&packets, time)?;
        Ok((settings, packets, time))
    });
    let (settings, packets, time) = match checked {
        Ok(checked) => checked,
        Err(failure) => {
            // If this request starts the sequence, the sequence ends with the error.
            if !part.starts {
                hold.leave(sequence);
            }
            return Err(failure);
        }
    };
    if part.starts {
        hold.begins();
    }
    let within = match who.find(&sequence.name) {
        Ok(named) => who.time_for(&named.servable, settings.timeout),
        // A reload has removed the graph.
        Err(_) => settings.timeout,
    };
    let fed = async {
        sequence.feeder.push(packets, time, None).await?;
        if part.ends {
            sequence.feeder.close();
            return sequence.run.collect(None).await;
        }
        sequence.run.collect(Some(&sequence.feeder)).await
    };
    let tensors = who.guard(within).wait(fed).await?;
    who.entry.answers();
    let label = sequence.label.clone();
    let plan = Arc::clone(&sequence.run.plan);
    if part.ends || sequence.run.has_ended() {
        hold.done();
    } else {
        hold.leave(sequence);
    }
    Ok(Outcome {
        label,
        tensors: choose(&plan, tensors, &request.outputs)?,
        summary: None,
    })
}

/// Opens the run of a sequence, which outlives the request.
fn begin(who: &RequestContext, ready: Ready, settings: &Settings) -> Result<Sequence> {
    let label = Label::from(&*ready.servable);
    let name = ready.servable.name().to_owned();
    who.entry.model(&name, false);
    let (sides, priority) = (&settings.sides, settings.priority);
    let run = GraphRun::open_tensors(who, ready, sides, priority, None, Driver::Task)?;
    Ok(Sequence {
        name,
        label,
        feeder: run.feeder(),
        run,
    })
}

/// Refuses a version other than that of a run. `what` names the run in the error.
pub(crate) fn check_version(asked: &str, version: &str, what: &str) -> Result<()> {
    if ["", "0", version].contains(&asked) {
        return Ok(());
    }
    let why = format!("the {what} is for the version {version}");
    Err(wrong("model_version", why))
}

/// Refuses outputs that the graph does not have.
fn check_outputs(wanted: &[WantedOutput], plan: &Plan) -> Result<()> {
    let names: Vec<&str> = (plan.graph_outputs())
        .map(|stream| tensors::output_name(plan, stream))
        .collect();
    let is_unknown = |output: &WantedOutput| !names.contains(&output.name.as_str());
    let Some(position) = wanted.iter().position(is_unknown) else {
        return Ok(());
    };
    let unknown = shortened(&wanted[position].name, SHOWN_BYTES);
    let names = names.join("`, `");
    let why = format!("the graph has no output `{unknown}`: expected one of `{names}`");
    Err(wrong(format!("outputs[{position}].name"), why))
}

/// Returns the wanted tensors, in the order of the request.
fn choose(plan: &Plan, tensors: Tensors, wanted: &[WantedOutput]) -> Result<Tensors> {
    if wanted.is_empty() {
        return Ok(tensors);
    }
    let choose = |output: &WantedOutput| {
        let found = tensors.iter().find(|(other, _)| *other == output.name);
        let (name, tensor) = found.ok_or_else(|| {
            let name = shortened(&output.name, SHOWN_BYTES);
            let why = format!("the graph sent no packet to its output `{name}`");
            Failure::new(Cause::NoAnswer, why)
        })?;
        let labels = tensors::labels(plan, name);
        Ok((name.clone(), output.take(tensor, labels)?))
    };
    wanted.iter().map(choose).collect()
}

/// Reads the datatype and the shape of the tensor at a place of a request.
pub(crate) fn read_type(
    place: &str,
    datatype: &str,
    shape: &[i64],
) -> Result<(Datatype, Box<[usize]>)> {
    let datatype = datatype.parse();
    let datatype = datatype.map_err(|why: String| wrong(format!("{place}.datatype"), why))?;
    let shape = shape_of(shape).map_err(|why| wrong(format!("{place}.shape"), why))?;
    Ok((datatype, shape))
}

/// Refuses unknown parameters of a tensor.
pub(crate) fn refuse_parameters(place: &str, parameters: &ParameterMap) -> Result<()> {
    for (name, value) in parameters {
        let field = format!("{place}.parameters.{}", shortened(name, SHOWN_BYTES));
        if name == CONTENT_TYPE {
            check_content_type(field, value)?;
        } else if name.starts_with("shared_memory") {
            return Err(unsupported(field, "shared memory is not supported"));
        } else {
            return Err(wrong(field, "unknown parameter of a tensor"));
        }
    }
    Ok(())
}

/// Converts the tensors of a request to packets of the graph's inputs. With `whole`, each input
/// must have one.
pub(crate) fn packets(plan: &Plan, given: Tensors, whole: bool) -> Result<Vec<(String, Packet)>> {
    let mut packets: Vec<(String, Packet)> = Vec::with_capacity(given.len());
    for (name, tensor) in given {
        let field = format!("inputs.{}", shortened(&name, SHOWN_BYTES));
        let Some(stream) = tensors::input_stream(plan, &name) else {
            let names = plan
                .graph_inputs()
                .map(|stream| tensors::input_name(plan, stream));
            let names = names.collect::<Vec<_>>().join("`, `");
            let why = format!("unknown input: expected one of `{names}`");
            return Err(wrong(field, why));
        };
        if packets.iter().any(|(other, _)| *other == stream) {
            return Err(wrong(field, "the input is given twice"));
        }
        let packet = tensors::to_packet(plan, stream, tensor);
        packets.push((stream.to_owned(), packet.map_err(|why| wrong(field, why))?));
    }
    let is_missing = |input: &&str| !packets.iter().any(|(name, _)| name == input);
    if whole && let Some(missing) = plan.graph_inputs().find(is_missing) {
        let missing = tensors::input_name(plan, missing);
        let failure = wrong(format!("inputs.{missing}"), "the input is missing");
        return Err(failure.with_code("missing_required_parameter"));
    }
    Ok(packets)
}
